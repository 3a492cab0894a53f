/** Tests of the connections between replicas, as an operator configures them. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeCertificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { preload } from '../../../../test/preload.ts'
import { etcd } from '../../../../test/servers/etcd.ts'
import { freePort } from '../../../../test/servers/free-port.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { systemClock } from '../../src/common/clock.ts'
import { rotateSecret } from '../../src/internal.ts'
import { openSharedStorage } from '../../src/storage/open-storage.ts'
import { forkService } from './forked-service.ts'
import { answers, campaign, Keeper, startReplicas, won } from './process-scene.ts'
import { connectRaw } from './raw-peer.ts'
import type { ReplicaProcess } from './replica-process.ts'

/** Files of a self-signed certificate until the end of the test. */
function certificateFiles() {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-link-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const [certFile, keyFile] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  const write = (...names: string[]) => {
    const { cert, key } = makeCertificate({ names })
    writeFileSync(certFile, cert)
    writeFileSync(keyFile, key, { mode: 0o600 })
    return cert
  }
  return { certFile, keyFile, write }
}

/** Sends a request over TLS on a dedicated connection. */
async function ask(url: string, ca: string, body: object): Promise<{ status: number | undefined; body: unknown }> {
  const asked = request(url, { method: 'POST', ca, agent: false, headers: { 'content-type': 'application/json' } })
  asked.end(JSON.stringify(body))
  const [response] = await once(asked, 'response')
  return { status: response.statusCode, body: await json(response) }
}

/** The certificate that is presented at this port. */
async function shownAt(port: number): Promise<string> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { raw } = socket.getPeerCertificate()
  socket.destroy()
  return raw.toString('base64')
}

describeWith(etcd, 'replicas on etcd', (server) => {
  const newStore = () => `${server().url.replace('http:', 'etcd:')}/${randomUUID()}`

  test('replicas listen for each other on a kernel without IPv6', async () => {
    const port = await freePort()
    const { certFile, keyFile, write } = certificateFiles()
    write('replica.example')
    const service = await forkService(
      {
        store: newStore(),
        advertise: `https://replica.example:${port}`,
        port: 0,
        tls: { certFile, keyFile },
      },
      { LD_PRELOAD: preload(join(import.meta.dirname, './no-ipv6.c')) },
    )
    onTestFinished(() => service.close())
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.destroy()
    expect(service.url).toMatch(/^https:/)
  })

  test('replicas use a new certificate and a new authority for each other without a restart', async () => {
    const { certFile, keyFile, write } = certificateFiles()
    const first = write('127.0.0.1')
    const store = newStore()
    const start = async () => {
      const linkPort = await freePort()
      const service = await forkService({
        store,
        advertise: `https://127.0.0.1:${linkPort}`,
        advertiseCaFile: certFile,
        port: 0,
        tls: { certFile, keyFile },
      })
      onTestFinished(() => service.kill())
      return { ...service, linkPort }
    }
    const replicas = [await start(), await start(), await start()]
    const [active, ...others] = replicas
    const claim = { node_id: 'a', lease_ttl_ms: 60_000 }
    const term = async (url: string, ca: string) => {
      const answer = await ask(`${url}/v1/groups/g/campaign`, ca, claim)
      return (answer.body as { leader?: { term: number } }).leader?.term
    }
    for (const { url } of replicas) await vi.waitUntil(async () => (await term(url, first)) === 1, { timeout: 20_000 })

    const second = write('127.0.0.1')
    for (const replica of replicas) await replica.reload()
    for (const { linkPort } of replicas) {
      expect(second.replaceAll('\n', '')).toContain(await shownAt(linkPort))
    }
    // The replica that started first was active first. One of the others follows the next active replica on a new
    // connection.
    await active?.close()
    for (const { url } of others) await vi.waitUntil(async () => (await term(url, second)) === 1, { timeout: 20_000 })
  })

  test('a secret is rotated in steps with restarts in between, without losing a lease or a cursor', async () => {
    const prefix = randomUUID()
    const store = `${server().url.replace('http:', 'etcd:')}/${prefix}`
    const { replicas } = await startReplicas({ members: [server().port], prefix })
    const secretNow = async () => {
      const { storage, close } = await openSharedStorage(store, { newId: randomUUID, clock: systemClock })
      const head = await storage.head()
      await close()
      return head
    }
    const { secret: first, clusterId } = await secretNow()
    let at = 0
    const running = () => replicas.filter(({ isRunning }) => isRunning)
    const keeper = new Keeper('kept', () => running()[at++ % running().length] as ReplicaProcess)
    await keeper.start({ ttlMs: 15_000, everyMs: 50 })
    const cursorFrom = async (replica: ReplicaProcess) => {
      const answer = await vi.waitUntil(() => replica.ask('GET', '/v1/groups/kept/watch'), { timeout: 10_000 })
      return String(answer.body['cursor'])
    }
    for (let step = 1; step <= 3; step++) {
      await rotateSecret({ store, environment: {} })
      // The rotation fences the active replica at its next write.
      await vi.waitFor(async () => {
        expect(await campaign(replicas[0] as ReplicaProcess, `step-${step}`, 'a')).toMatchObject(won(1))
      }, 20_000)
      for (const replica of replicas) {
        await replica.stop()
        await replica.start()
        await answers(replica)
        // Only some replicas have been restarted since this step. Each must accept the cursors from the others.
        const cursors = await Promise.all(replicas.map(cursorFrom))
        for (const [index, cursor] of cursors.entries()) {
          const other = replicas[(index + 1) % replicas.length]
          const path = `/v1/groups/kept/watch?wait_ms=0&cursor=${encodeURIComponent(cursor)}`
          await vi.waitFor(async () => expect(await other?.ask('GET', path)).toMatchObject({ status: 200 }), 10_000)
        }
      }
    }
    await keeper.stop()
    expect(keeper.lost).toEqual([])
    const { secret } = await secretNow()
    for (const { linkPort } of replicas) {
      const address = `http://127.0.0.1:${linkPort}`
      await expect(connectRaw(address, { secret: first, clusterId })).rejects.toThrow('refused: 401')
      await connectRaw(address, { secret, clusterId })
    }
  }, 120_000)

  test('rotateSecret refuses a store without data', async () => {
    const store = newStore()
    await expect(rotateSecret({ store, environment: {} })).rejects.toThrow(/head is missing/)
    await expect(rotateSecret({ store, environment: {} })).rejects.toThrow(/head is missing/)
    await expect(rotateSecret({ stores: store } as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})
