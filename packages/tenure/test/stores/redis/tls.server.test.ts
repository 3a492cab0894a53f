import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { programs } from '../../../../../test/servers/programs.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'

const call = { signal: new AbortController().signal, timeoutMs: 5_000 }
const own = makeCertificate()
const tls = { ca: own.cert, ...own }
const other = makeCertificate()
const unavailable = { code: 'BACKEND_UNAVAILABLE', retryable: true }

/** Acquires a lease, receives the change on the other connection, and returns the term. */
async function led(store: LeaseStore, election: string): Promise<number | undefined> {
  onTestFinished(() => store.close?.())
  const changes = store.watch?.(election, call)[Symbol.asyncIterator]()
  await changes?.next()
  const claim = { election, holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
  await store.acquire(claim, call)
  const seen = await changes?.next()
  await changes?.return?.()
  return seen?.value?.term
}

describeWithPrograms([programs.redis], 'redisStore over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-redis-tls-'))
  const [ca, key, wrongCa] = ['ca', 'key', 'other'].map((name) => join(folder, name)) as [string, string, string]
  const environment = { TENURE_CA_FILE: ca, TENURE_CERT_FILE: ca, TENURE_KEY_FILE: key }
  let server: RunningServer | undefined
  let url: string
  beforeAll(async () => {
    writeFileSync(ca, own.cert)
    writeFileSync(key, own.key)
    writeFileSync(wrongCa, other.cert)
    server = await start({
      ...redis,
      args: (place) => {
        const files = ['--tls-cert-file', ca, '--tls-key-file', key, '--tls-ca-cert-file', ca]
        return [...redis.args(place), '--port', '0', '--tls-port', String(place.port), ...files]
      },
      async probe({ port }) {
        const client = new Redis(redis.url(port), { tls, retryStrategy: () => null, lazyConnect: true })
        client.on('error', () => {})
        await client.connect().finally(() => client.disconnect())
      },
    })
    url = `rediss://127.0.0.1:${server.port}`
  })
  afterAll(async () => {
    await server?.stop()
    rmSync(folder, { recursive: true })
  })

  test('the store presents its certificate and trusts only the configured CA', async () => {
    expect(await led(await openStore(url, { environment }), 'by URL')).toBe(1)
    expect(await led(redisStore({ client: new Redis(url, { tls, lazyConnect: true }) }), 'ioredis')).toBe(1)
    expect(await led(redisStore({ client: createClient({ url, socket: { tls: true, ...tls } }) }), 'redis')).toBe(1)
    const wrong = [
      [url, {}],
      [url, { ...environment, TENURE_CA_FILE: wrongCa }],
      // The server requires a client certificate.
      [url, { TENURE_CA_FILE: ca }],
      [url.replace('rediss:', 'redis:'), environment],
    ] as const
    for (const [address, variables] of wrong) {
      const store = await openStore(address, { environment: variables })
      onTestFinished(() => store.close?.())
      await expect(store.read('payments', call)).rejects.toMatchObject(unavailable)
    }
  })

  test('openStore supports TLS in a project that has only the package "redis"', () => {
    const modules = join(folder, 'node_modules')
    const root = join(import.meta.dirname, '../../../../..')
    mkdirSync(join(modules, 'tenure'), { recursive: true })
    for (const part of ['dist', 'package.json']) {
      cpSync(join(root, 'packages/tenure', part), join(modules, 'tenure', part), { recursive: true })
    }
    symlinkSync(join(root, 'node_modules/redis'), join(modules, 'redis'))
    const script = `
      import { openStore } from 'tenure/stores'
      const store = await openStore(process.argv[1])
      const call = { signal: new AbortController().signal, timeoutMs: 5_000 }
      const claim = { holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0, metadata: {} }
      const { record, code } = await store.acquire({ election: 'only redis', ...claim }, call).catch((error) => error)
      console.log(record?.term ?? code)
      await store.close()`
    const run = (variables: object) =>
      execFileSync(process.execPath, ['--input-type=module', '-e', script, url], {
        cwd: folder,
        env: { ...process.env, ...variables },
        encoding: 'utf8',
      }).trim()
    expect(run({ ...environment, TENURE_CA_FILE: wrongCa })).toBe('BACKEND_UNAVAILABLE')
    expect(run(environment)).toBe('1')
  })
})
