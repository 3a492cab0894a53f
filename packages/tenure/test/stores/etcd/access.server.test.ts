/** Users, certificates, and servers that cannot be used. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createUsers, type EtcdUsers } from '../../../../../test/servers/etcd-users.ts'
import { askEtcd, base64, etcd, etcd36, removeKeys, withSettings } from '../../../../../test/servers/etcd.ts'
import { start, type ServerKind } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { etcdStore } from '../../../src/stores/etcd/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { claimOf, granted } from '../../clients/etcd/checks.ts'
import { startRecordingProxy } from '../../clients/etcd/recording-proxy.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'

const callOf = () => ({ signal: new AbortController().signal, timeoutMs: 10_000 })

async function startOwn(kind: ServerKind, settings: Record<string, string>) {
  const server = await start(withSettings(kind, settings))
  onTestFinished(() => server.stop())
  return server
}

const grant = async (store: LeaseStore) => granted(await store.acquire(claimOf(), callOf()))

for (const kind of [etcd, etcd36]) {
  describeWith(withSettings(kind, { 'bcrypt-cost': '4' }), `etcdStore with users on ${kind.name}`, (server) => {
    let users: EtcdUsers
    beforeAll(async () => {
      users = await createUsers(server(), 'first')
    })

    test('many calls share one token, and a rejected token is replaced', async () => {
      const front = await startRecordingProxy(server().url)
      const store = etcdStore({ endpoints: front.url, user: 'tenure', password: 'first' })
      await Promise.all(Array.from({ length: 20 }, () => grant(store)))
      const tokens = () => front.asked.filter((path) => path === '/v3/auth/authenticate').length
      expect(tokens()).toBe(1)
      // Setting a password invalidates all tokens of the user.
      await users.setPassword('first')
      await grant(store)
      expect(tokens()).toBe(2)
    })

    test('the password function is called again after the password was replaced', async () => {
      let password = 'first'
      const store = etcdStore({ endpoints: server().url, user: 'tenure', password: () => password })
      await grant(store)
      await users.setPassword('second')
      await expect(grant(store)).rejects.toMatchObject({
        code: 'UNAUTHORIZED',
        message: expect.stringContaining('The user name or the password is wrong'),
      })
      password = 'second'
      await grant(store)
      await users.setPassword('first')
    })

    test('a watch requests a new token when its token is rejected', async () => {
      const store = etcdStore({ endpoints: server().url, user: 'tenure', password: 'first' })
      const { election } = await grant(store)
      const leaving = new AbortController()
      await users.setPassword('first')
      for await (const record of store.watch?.(election, { signal: leaving.signal }) ?? []) {
        expect(record?.term).toBe(1)
        break
      }
      leaving.abort()
    })

    test('the etcd store reports a missing user or permission', async () => {
      await expect(grant(etcdStore({ endpoints: server().url }))).rejects.toMatchObject({
        code: 'UNAUTHORIZED',
        message: expect.stringMatching(/requires a user and a password.*TENURE_STORE_USER/),
      })
      const elsewhere = etcdStore({ endpoints: server().url, prefix: 'other', user: 'tenure', password: 'first' })
      await expect(grant(elsewhere)).rejects.toMatchObject({
        code: 'UNAUTHORIZED',
        message: expect.stringContaining('may read and write all keys under the prefix'),
      })
    })

    test('openStore takes the password from the URL, the environment or a file', async () => {
      const host = server().url.replace('http://', '')
      const folder = mkdtempSync(join(tmpdir(), 'tenure-etcd-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const file = join(folder, 'password')
      writeFileSync(file, 'first\n')
      const named = { TENURE_STORE_USER: 'tenure' }
      for (const [url, environment] of [
        [`etcd://tenure:first@${host}`, {}],
        [`etcd://tenure@${host}/tenure`, { TENURE_STORE_PASSWORD: 'first' }],
        [`etcd://${host}`, { ...named, TENURE_STORE_PASSWORD_FILE: file }],
      ] as const) {
        await grant(await openStore(url, { environment }))
      }
    })
  })
}

describeWith(etcd, 'etcdStore on a server without users', (server) => {
  test('etcdStore accepts a user and a password that the server does not need', async () => {
    await grant(etcdStore({ endpoints: server().url, user: 'tenure', password: 'any' }))
  })
})

describe('etcdStore over TLS', () => {
  for (const kind of [etcd, etcd36]) {
    test(`etcdStore presents a certificate to ${kind.name} and trusts only the configured CA`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tenure-etcd-tls-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const [own, client] = [makeCertificate(), makeCertificate()]
      const files = {
        ca: own.cert,
        key: own.key,
        clientCa: client.cert + own.cert,
        cert: client.cert,
        clientKey: client.key,
      }
      const paths = Object.fromEntries(
        Object.entries(files).map(([name, text]) => {
          const path = join(folder, name)
          writeFileSync(path, text, { mode: 0o600 })
          return [name, path]
        }),
      ) as Record<keyof typeof files, string>
      const base = withSettings(kind, {})
      const secure: ServerKind = {
        ...base,
        args: (place) => [
          ...base.args(place).filter((arg) => !/^--(listen|advertise)-client-urls/.test(arg)),
          `--listen-client-urls=https://127.0.0.1:${place.port}`,
          `--advertise-client-urls=https://127.0.0.1:${place.port}`,
          `--cert-file=${paths.ca}`,
          `--key-file=${paths.key}`,
          '--client-cert-auth=true',
          `--trusted-ca-file=${paths.clientCa}`,
        ],
        probe: ({ port }) => etcdStore({ ...tls, endpoints: `https://127.0.0.1:${port}` }).read('none', callOf()),
      }
      const tls = { ca: own.cert, cert: client.cert, key: client.key }
      const server = await start(secure)
      onTestFinished(() => server.stop())
      const environment = { TENURE_CA_FILE: paths.ca, TENURE_CERT_FILE: paths.cert, TENURE_KEY_FILE: paths.clientKey }
      await grant(await openStore(`etcds://127.0.0.1:${server.port}`, { environment }))
      for (const wrong of [{ ...environment, TENURE_CA_FILE: undefined }, { TENURE_CA_FILE: paths.ca }]) {
        const store = await openStore(`etcds://127.0.0.1:${server.port}`, { environment: wrong })
        await expect(grant(store)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
      }
      const plain = etcdStore({ endpoints: `http://127.0.0.1:${server.port}` })
      await expect(grant(plain)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    })
  }
})

describe('etcdStore on servers that cannot be used', () => {
  test('etcdStore reports a server without a JSON gateway, as before 3.4', async () => {
    const server = await startOwn(etcd36, { 'enable-grpc-gateway': 'false' })
    await expect(grant(etcdStore({ endpoints: server.url }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('etcd 3.4 or newer'),
    })
  })

  test('etcdStore reports a full server, still reads, and recovers once space is freed', async () => {
    const server = await startOwn(etcd, { 'quota-backend-bytes': String(4 * 2 ** 20) })
    const store = etcdStore({ endpoints: server.url })
    const record = await grant(store)
    const fill = async () => {
      for (;;) await askEtcd(server, 'kv/put', { key: base64('fill'), value: base64('x'.repeat(500_000)) })
    }
    await expect(fill()).rejects.toThrow('space exceeded')
    await expect(grant(store)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('etcd is full'),
    })
    expect(await store.read(record.election, callOf())).toEqual(record)
    const [worst] = await store.inspect(callOf())
    expect(worst).toEqual({ risk: 'unsafe', text: expect.stringContaining('is full and refuses writes') })
    await removeKeys(server, 'fill')
    const { header } = await askEtcd<{ header: { revision: string; member_id: string } }>(server, 'kv/range', {
      key: base64('none'),
    })
    await askEtcd(server, 'kv/compaction', { revision: header.revision, physical: true })
    await askEtcd(server, 'maintenance/defragment', {})
    await askEtcd(server, 'maintenance/alarm', {
      action: 'DEACTIVATE',
      alarm: 'NOSPACE',
      memberID: header.member_id,
    })
    await grant(store)
  })

  test('etcdStore reports a member of another cluster', async () => {
    const [one, other] = await Promise.all([startOwn(etcd, {}), startOwn(etcd, { 'initial-cluster-token': 'another' })])
    const store = etcdStore({ endpoints: [one.url, other.url] })
    await grant(store)
    const findings = () => store.examine?.('x', callOf())
    expect(await findings()).toEqual([expect.objectContaining({ code: 'WRONG_CLUSTER' })])
    expect(
      await etcdStore({ endpoints: [one.url, one.url.replace('127.0.0.1', 'localhost')] }).examine?.('x', callOf()),
    ).toEqual([])
    const texts = async () => (await store.inspect(callOf())).map(({ risk, text }) => `${risk}: ${text}`)
    expect(await texts()).toContainEqual(expect.stringMatching(/^unsafe: The addresses belong to different clusters/))
    await one.kill('SIGKILL')
    expect(await texts()).toContainEqual(expect.stringMatching(/^tight: etcd at .* did not answer/))
    await expect(grant(store)).rejects.toMatchObject({
      code: 'WRONG_CLUSTER',
      message: expect.stringContaining('Configure members of one cluster only'),
    })
    await one.start()
    await grant(store)
  })

  test('etcdStore reports a server that is not etcd', async () => {
    const front = await startRecordingProxy('http://127.0.0.1:9')
    await expect(grant(etcdStore({ endpoints: front.url }))).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })
})
