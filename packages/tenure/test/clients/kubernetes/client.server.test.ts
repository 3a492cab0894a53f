import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { requestJson } from '../../../../../test/servers/https-json.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWithOwnCluster } from '../../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../../src/clients/kubernetes/client.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { clientFor } from './tls-server.ts'

const { signal } = new AbortController()
const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
const soon = { timeout: 5_000, interval: 5 }
let names = 0

interface Lease {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
  readonly spec: Record<string, unknown>
}

/** How many connections, established or pending, keep the process alive. */
const awaited = () =>
  process.getActiveResourcesInfo().filter((kind) => /TCPSocket|TLS|Connect|GetAddrInfo/.test(kind)).length

describeWithOwnCluster('KubernetesClient on a real API server', (cluster) => {
  const connectionThrough = (port: number) => ({
    server: `https://127.0.0.1:${port}`,
    credentials: () => ({ authorization: `Bearer ${cluster().adminToken}`, tls: { ca: cluster().ca } }),
  })
  /** A client, and the network between it and the API server. */
  const behindProxy = async () => {
    const proxy = await startProxy(cluster().port)
    onTestFinished(() => proxy.stop())
    return { proxy, client: clientFor(connectionThrough(proxy.port)) }
  }
  const read = (client: KubernetesClient, timeoutMs = 10_000) =>
    client.request({ method: 'GET', path: leases, signal, timeoutMs })
  const create = async (client: KubernetesClient) => {
    const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: `lease-${++names}` } }
    const answer = await client.request({ method: 'POST', path: leases, body, signal })
    expect(answer.status).toBe(201)
    return answer.body as Lease
  }
  const watch = (client: KubernetesClient, { signal: until = signal, silenceMs = 60_000 } = {}) =>
    client.watch({ path: `${leases}?watch=1&resourceVersion=0`, signal: until, silenceMs: () => silenceMs })
  /** Opens this many connections, which are kept alive. */
  const keep = async (client: KubernetesClient, count: number) => {
    await Promise.all(Array.from({ length: count }, () => read(client)))
  }

  test('request resolves for every answer from the server, including refusals', async () => {
    const client = clientFor(connectionThrough(cluster().port))
    const lease = await create(client)
    const path = `${leases}/${lease.metadata.name}`
    expect(await client.request({ method: 'GET', path, signal })).toMatchObject({
      status: 200,
      body: { kind: 'Lease' },
    })
    const body = { ...lease, spec: { holderIdentity: 'grüße 🚀' } }
    const put = await client.request({ method: 'PUT', path, body, signal })
    expect(put).toMatchObject({ status: 200, body: { spec: { holderIdentity: 'grüße 🚀' } } })
    const late = await client.request({ method: 'PUT', path, body, signal })
    expect(late).toMatchObject({ status: 409, body: { kind: 'Status', reason: 'Conflict' } })
    const none = await client.request({ method: 'GET', path: `${leases}/none`, signal })
    expect(none).toMatchObject({ status: 404, body: { reason: 'NotFound' } })
    expect((await client.request({ method: 'GET', path: '/no/such/path', signal })).status).toBe(404)
    // The server answers with the text "ok" here, which is not an object.
    expect(await client.request({ method: 'GET', path: '/readyz', signal })).toEqual({ status: 200, body: undefined })
  })

  describe('connections of KubernetesClient', () => {
    test('connections are kept alive between calls and shared by all callers', async () => {
      const { proxy, client } = await behindProxy()
      for (let count = 0; count < 5; count++) await read(client)
      expect(proxy.opened).toBe(1)
      await keep(client, 4)
      const { opened } = proxy
      expect(opened).toBeLessThanOrEqual(4)
      await keep(client, 4)
      await create(client)
      expect(proxy.opened).toBe(opened)
    })

    test('close ends idle connections, and calls and watches in flight continue', async () => {
      const { proxy, client } = await behindProxy()
      const caller = new AbortController()
      const events = watch(client, caller)
      await create(client)
      expect((await events.next()).value).toMatchObject({ type: 'ADDED' })
      await keep(client, 3)
      proxy.set('hold')
      const { queuedBytes } = proxy
      const asked = read(client)
      await vi.waitUntil(() => proxy.queuedBytes > queuedBytes, soon)
      client.close()
      client.close()
      proxy.set('pass')
      expect((await asked).status).toBe(200)
      // The connection that was in use and the one of the watch stay open.
      await vi.waitUntil(() => proxy.open === 2, soon)
      const { opened } = proxy
      await create(client)
      expect((await events.next()).value).toMatchObject({ type: 'ADDED' })
      expect(proxy.opened).toBe(opened)
      client.close()
      await vi.waitUntil(() => proxy.open === 1, soon)
      expect((await read(client)).status).toBe(200)
      expect(proxy.opened).toBe(opened + 1)
      caller.abort()
      await expect(events.next()).rejects.toBe(caller.signal.reason)
      await vi.waitUntil(() => proxy.open === 1, soon)
    })

    test('only one call fails on half-open connections, and the next call uses a new connection', async () => {
      const { proxy, client } = await behindProxy()
      await keep(client, 4)
      const { opened } = proxy
      proxy.freezeExisting()
      await expect(read(client, 300)).rejects.toMatchObject({ code: 'TIMEOUT' })
      expect(proxy.opened).toBe(opened)
      expect((await read(client, 3_000)).status).toBe(200)
      expect(proxy.opened).toBe(opened + 1)
    })

    test('only one call fails on half-open connections even if its caller aborts it', async () => {
      const { proxy, client } = await behindProxy()
      await keep(client, 4)
      proxy.freezeExisting()
      const impatient = client.request({ method: 'GET', path: leases, signal: AbortSignal.timeout(300) })
      await expect(impatient).rejects.toMatchObject({ name: 'TimeoutError' })
      expect((await read(client, 3_000)).status).toBe(200)
    })

    test('no call fails on half-open connections once a watch has detected them', async () => {
      const { proxy, client } = await behindProxy()
      const events = watch(client, { silenceMs: 300 })
      await create(client)
      await keep(client, 2)
      expect((await events.next()).value).toMatchObject({ type: 'ADDED' })
      proxy.freezeExisting()
      const noticed = async () => {
        while (!(await events.next()).done);
      }
      await expect(noticed()).rejects.toMatchObject({ code: 'TIMEOUT' })
      expect((await read(client, 3_000)).status).toBe(200)
    })

    test('no call fails, not even a write, after idle connections were reset', async () => {
      const { proxy, client } = await behindProxy()
      await keep(client, 3)
      proxy.reset()
      await create(client)
    })

    test('no call fails after a restart of the server', async () => {
      const client = clientFor(connectionThrough(cluster().port))
      await keep(client, 3)
      await cluster().restart('SIGKILL')
      await create(client)
    })

    test('request rejects while connections are refused, and succeeds afterwards', async () => {
      const { proxy, client } = await behindProxy()
      proxy.refuse()
      await expect(read(client)).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringContaining('ECONNREFUSED') as string,
      })
      await proxy.accept()
      expect((await read(client)).status).toBe(200)
    })
  })

  describe('deadlines of KubernetesClient', () => {
    test('the deadline is absolute: bytes that trickle in do not extend it', async () => {
      const { proxy, client } = await behindProxy()
      await read(client)
      proxy.set({ bytes: 1, everyMs: 20 }, 'to-client')
      const startedMs = performance.now()
      await expect(read(client, 400)).rejects.toMatchObject({ code: 'TIMEOUT' })
      expect(performance.now() - startedMs).toBeLessThan(2_000)
      proxy.set('pass')
      expect((await read(client)).status).toBe(200)
    })

    test('the deadline holds while the server is paused, and the call leaves nothing behind', async () => {
      const client = clientFor(connectionThrough(cluster().port))
      await read(client)
      const before = awaited()
      const { url, ca, pause, resume } = cluster()
      pause()
      try {
        // A process with many threads does not stop at once.
        const stands = () =>
          requestJson({ url, ca, path: '/readyz', timeoutMs: 200 }).then(
            () => false,
            () => true,
          )
        await vi.waitUntil(stands, soon)
        await expect(read(client, 300)).rejects.toMatchObject({ code: 'TIMEOUT' })
        // The second call uses a new connection, whose handshake is never answered.
        await expect(read(client, 300)).rejects.toMatchObject({ code: 'TIMEOUT' })
      } finally {
        resume()
      }
      await vi.waitUntil(() => awaited() <= before, soon)
      expect((await read(client)).status).toBe(200)
    })
  })

  test('calls leave no timer, no listener and nothing that keeps a process alive', async () => {
    const clock = fakeClock()
    const client = clientFor(connectionThrough(cluster().port), clock)
    const caller = new AbortController()
    const before = awaited()
    await Promise.all(
      Array.from({ length: 4 }, () => client.request({ method: 'GET', path: leases, signal: caller.signal })),
    )
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(clock.timers).toBe(0)
    // The connections still exist, as the tests above show, but they do not keep the process alive.
    await vi.waitUntil(() => awaited() <= before, soon)
  })

  test('a process that has made calls exits on its own', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tenure-client-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const bundle = await rolldown({
      input: join(import.meta.dirname, '../../../src/clients/kubernetes/client.ts'),
      platform: 'node',
    })
    await bundle.write({ file: join(folder, 'client.mjs') })
    const { url, ca, adminToken } = cluster()
    await create(clientFor(connectionThrough(cluster().port)))
    const program = `
      import { KubernetesClient } from './client.mjs'
      const { url, ca, token } = JSON.parse(process.env.CLUSTER)
      const client = new KubernetesClient({ server: url, credentials: () => ({ authorization: 'Bearer ' + token, tls: { ca } }) })
      const { signal } = new AbortController()
      const call = () => client.request({ method: 'GET', path: '${leases}', signal })
      const answers = await Promise.all([call(), call(), call()])
      const events = client.watch({ path: '${leases}?watch=1&resourceVersion=0', signal, silenceMs: () => 60_000 })
      await events.next()
      await events.return()
      console.log(answers.map(({ status }) => status).join())`
    const env = { ...process.env, CLUSTER: JSON.stringify({ url, ca, token: adminToken }) }
    const args = ['--input-type=module', '-e', program]
    // Connections are kept alive for a minute. A process that waited for them would be killed by this timeout.
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env, timeout: 10_000 })
    expect(stdout.trim()).toBe('200,200,200')
  })

  test('a watch shows changes, and rejects when its connection is cut', async () => {
    const { proxy, client } = await behindProxy()
    const events = watch(client)
    const { metadata } = await create(client)
    const seen: unknown[] = []
    while (!seen.includes(metadata.name)) {
      const { value } = await events.next()
      seen.push((value as { object: Lease }).object.metadata.name)
    }
    const next = events.next()
    proxy.reset()
    await expect(next).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect((await read(client)).status).toBe(200)
  })

  test('a watch ends when the server ends it', async () => {
    const client = clientFor(connectionThrough(cluster().port))
    const path = `${leases}?watch=1&resourceVersion=0&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone`
    expect(await client.watch({ path, signal, silenceMs: () => 60_000 }).next()).toEqual({
      done: true,
      value: undefined,
    })
  })

  test('a watch without permission is refused', async () => {
    const { url, ca, tokenOf } = cluster()
    const by = (token: string) =>
      watch(clientFor({ server: url, credentials: () => ({ authorization: `Bearer ${token}`, tls: { ca } }) })).next()
    await expect(by(tokenOf('stranger'))).rejects.toMatchObject({ status: 403, code: 'UNAUTHORIZED', retryable: false })
    await expect(by('no such token')).rejects.toMatchObject({ status: 401, code: 'UNAUTHORIZED', retryable: false })
  })

  test('a watch of a version that is gone reports 410', async () => {
    const client = clientFor(connectionThrough(cluster().port))
    const path = `${leases}?watch=1&resourceVersion=1`
    const seen = await client
      .watch({ path, signal, silenceMs: () => 60_000 })
      .next()
      .catch((error: unknown) => ({ value: { object: { code: (error as { status: number }).status } } }))
    expect(seen).toMatchObject({ value: { object: { code: 410 } } })
  })
})
