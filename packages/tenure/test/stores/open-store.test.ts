import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { AcquireClaim } from '../../src/engine/lease-store.ts'
import { openStore, redactedUrl } from '../../src/stores/index.ts'

const call = { signal: new AbortController().signal }

function claim(election: string, attempt: string): AcquireClaim {
  return { election, holder: attempt, attempt, leaseDurationMs: 10_000, afterTerm: 0, metadata: {} }
}

const schemes = [
  'memory',
  'file',
  'kubernetes',
  'multicluster',
  'consul',
  'consuls',
  'etcd',
  'etcds',
  'mysql',
  'mariadb',
  'nats',
  'natss',
  'postgres',
  'postgresql',
  'redis',
  'rediss',
  'dynamodb',
  's3',
  'azblob',
  'gs',
  'sqlite',
  'http',
  'https',
]
const known = schemes.map((name) => `"${name}:"`).join(', ')

describe('openStore', () => {
  let folder: string | undefined
  afterEach(async () => {
    if (folder) await rm(folder, { recursive: true })
    folder = undefined
  })

  test('openStore returns one shared store for all callers of "memory:", so that only one of them leads', async () => {
    const [one, other] = await Promise.all([openStore('memory:'), openStore('memory:')])
    const outcomes = [
      await one.acquire(claim('open store', 'a1'), call),
      await other.acquire(claim('open store', 'b1'), call),
    ]
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false])
  })

  test('openStore opens a directory with spaces and accents in its path', async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenure open store '))
    const store = await openStore(pathToFileURL(join(folder, 'léases')).href)
    expect(await store.acquire(claim('open store', 'a1'), call)).toMatchObject({ ok: true })
    await store.close?.()
    expect((await readdir(folder)).map((name) => name.normalize())).toEqual(['léases'])
  })

  test.skipIf(process.platform === 'win32')('openStore opens a directory that the users of a group share', async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenure open store '))
    const modes = []
    for (const [name, query, file] of [
      ['alone', '', {}],
      ['shared', '?shareWithGroup=true', {}],
      ['shared by option', '', { shareWithGroup: true }],
    ] as const) {
      const directory = join(folder, name)
      const store = await openStore(pathToFileURL(directory).href + query, { file })
      await store.acquire(claim('open store', 'a1'), call)
      await store.close?.()
      modes.push(((await stat(directory)).mode & 0o7777).toString(8))
    }
    expect(modes).toEqual(['700', '2770', '2770'])
  })

  test('openStore passes the file options to the file store', async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenure open store '))
    let asked = 0
    const signOfLife = () => void asked++
    const store = await openStore(pathToFileURL(folder).href, { file: { signOfLife } })
    await store.acquire(claim('open store', 'a1'), call)
    await store.close?.()
    expect(asked).toBe(1)
  })

  test.each([
    ['flie:///leases', `There is no store for "flie:". Did you mean "file:"? Known schemes: ${known}.`],
    ['mem:', `There is no store for "mem:". Did you mean "memory:"? Known schemes: ${known}.`],
    ['constructor:', `There is no store for "constructor:". Known schemes: ${known}.`],
    ['quux://user:password@host', `There is no store for "quux:". Known schemes: ${known}.`],
  ])('openStore lists the known schemes when it does not know %s', async (url, message) => {
    await expect(openStore(url)).rejects.toMatchObject({ code: 'UNKNOWN_STORE', retryable: false, message })
  })

  test.each([
    '',
    'leases',
    '/var/lib/leases',
    'memory:mine',
    'file:leases',
    'file://host/leases',
    'file:///a?b',
    'file:///a?shareWithGroup',
    'file:///a?shareWithGroup=true&b',
    'file:///%2F',
    'kubernetes:default',
    'kubernetes://a/b',
    'kubernetes://token@default',
    'kubernetes://default?x=1',
    'postgres:host',
    'postgres://one.example.com:5432,two.example.com:5432/app',
    'mysql:host',
    'mysql://host',
    'mysql://host:3306/',
    'mysql://one.example.com,two.example.com/app',
    'mysql://one.example.com:3306,two.example.com:3306/app',
    'mysql://host/app/leases',
    'mysql://host/app?tabel=leases',
    'mysql://host/app?table=a&table=b',
    'mysql://host/app?table=a;b',
    'mysql://host/app?ssl-mode=perhaps',
    'mysql://host/app#leases',
    'mysql://user:%@host/app',
    'nats:host',
    'nats://host:4222',
    'nats://host:4222/',
    'nats://host:4222/a/b',
    'nats://host:port/leases',
    'nats://host:4222/leases?prefix=a',
    'nats://host:4222/leases?monitor=host:8222',
    'nats://user:%@host:4222/leases',
    'redis:host',
    'redis://',
    'redis://host/zero',
    'redis://host:6379:1',
    'redis://one.example.com,two.example.com',
    'redis://one.example.com?cluster=maybe',
    'redis://one.example.com/1?cluster=true',
    'redis://one.example.com?cluster=true&sentinel=mymaster',
    'redis://one.example.com?sentinel=',
    'redis://one.example.com?timeout=1',
    'redis://one.example.com?waitForReplicas=some',
    'redis://one.example.com?prefix={a}',
    'redis://user:%@one.example.com',
    'http://',
    'https://user:password@host',
    'https://host?x=1',
    'https://host,ftp://host',
  ])('openStore refuses "%s" instead of guessing', async (url) => {
    const refusal = expect(openStore(url)).rejects
    await refusal.toThrow(TypeError)
    await expect(openStore(url)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test.each([
    '/leases/user:hunter2@host',
    'memory:hunter2@',
    'file://user:hunter2@host/a',
    'kubernetes://user:hunter2@default',
    'postgres://user:hunter2@one:5432,two:5432/app',
    'mysql://user:hunter2@one:3306,two:3306/app',
    'mysql://host/app?password=hunter2',
    'nats://user:hunter2@host:port/leases',
    'redis://user:hunter2@one,two',
    'redis://host?password=hunter2',
    'https://user:hunter2@host:99999',
    'https://user:hunter2@host',
    'https://host?token=hunter2',
    'https://host,https://user:hunter2@host',
    'https://user:hunter2,x@host',
  ])('openStore does not show the password in %s', async (url) => {
    const error: unknown = await openStore(url).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(String(error)).not.toContain('hunter2')
  })

  const servers = [
    'consul',
    'consuls',
    'etcd',
    'etcds',
    'mysql',
    'mariadb',
    'nats',
    'natss',
    'postgres',
    'postgresql',
    'redis',
    'rediss',
    'http',
    'https',
  ]
  test.each(servers)('openStore shows no part of an unencoded password: %s', async (scheme) => {
    const logins = ['me:Kq/zw', 'me:77/zw', 'me:Kq,zw/%', 'me:Kq/z?w', 'me:Kq#/zw', 'me:77?zw', 'me:Kq@zw/7']
    for (const login of logins) {
      const url = `${scheme}://${login}@127.0.0.1:1/name`
      const opening = openStore(url, { environment: {} })
      await expect(opening, url).rejects.toMatchObject({ code: 'INVALID_OPTION' })
      await expect(opening, url).rejects.not.toThrow(/Kq|zw|77|z\?w/)
      expect(redactedUrl(url)).toBe(`${scheme}://***@127.0.0.1:1/name`)
    }
    expect(redactedUrl(`${scheme}://db/name?password=a,b`)).toBe(`${scheme}://db/name?password=***`)
  })

  test.each([
    [
      'redis://a@host/0?sentinel=mymaster&sentinelPassword=Kq',
      'redis://***@host/0?sentinel=mymaster&sentinelPassword=***',
    ],
    ['redis://host?tabel=Kq', 'redis://host?tabel=***'],
    [
      'postgres://host/app?table=jobs.leases&sslmode=verify-full',
      'postgres://host/app?table=jobs.leases&sslmode=verify-full',
    ],
    ['postgres://host/app?table=a?Kq&SSLMODE=Kq', 'postgres://host/app?table=***&SSLMODE=***'],
    // Without its "@", a login looks like one of several hosts.
    ['etcd://me:Kq,10.0.0.1:2379,10.0.0.2:2379/tenure', 'etcd://***/tenure'],
    ['postgres://:Kq,db-1,db-2/app', 'postgres://***/app'],
    ['redis://me:Kq/0', 'redis://***/0'],
    ['etcds://10.0.0.1:2379,[::1]:2379,etcd-3/tenure', 'etcds://10.0.0.1:2379,[::1]:2379,etcd-3/tenure'],
    ['https://host?Kq', 'https://host?***'],
    ['https://host?=Kq&K%71=1&a b=Kq', 'https://host?***&***&***'],
    ['https://host?token=Kq#zw', 'https://host?token=***#***'],
    ['https://host#Kq=1', 'https://host#***'],
    ['file:///a?shareWithGroup=true', 'file:///a?shareWithGroup=true'],
  ])('redactedUrl shows known parameters but no secret: %s', (url, shown) => {
    expect(redactedUrl(url)).toBe(shown)
  })

  test('an error from openStore shows no host of a refused list, because one of them may be a login', async () => {
    for (const url of ['etcd://me:77,10.0.0.1:2379/', 'postgres://me:77,db-2/app', 'redis://me:77,db:6379/0']) {
      const opening = openStore(`${url}?nonsense=1`, { environment: {} })
      await expect(opening, url).rejects.toMatchObject({ code: 'INVALID_OPTION' })
      await expect(opening, url).rejects.not.toThrow(/77|me/)
    }
  })

  test('openStore names an unknown parameter', async () => {
    await expect(openStore('redis://me:secret@host/0?sentinal=mymaster')).rejects.toThrow(
      '"redis://***@host/0?sentinal=***"',
    )
  })

  test('openStore asks about an unset variable when the URL is undefined', async () => {
    const opening = openStore(process.env['NO_SUCH_VARIABLE'] as string)
    await expect(opening).rejects.toThrow(
      /^openStore\(\) takes a URL such as .*, but got undefined\. Is the environment variable .* set\?$/,
    )
    await expect(opening).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test.each(['redis', 'etcd'])(
    'openStore warns once that %s: ignores certificates and is not encrypted',
    async (scheme) => {
      const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
      onTestFinished(() => warned.mockRestore())
      const environment = { TENURE_CA_FILE: '/etc/ca.pem' }
      for (const url of [`${scheme}s://127.0.0.1:1`, `${scheme}://127.0.0.1:1`, `${scheme}://127.0.0.1:2`]) {
        await openStore(url, { environment })
      }
      expect(warned.mock.calls).toEqual([
        [
          `TENURE_CA_FILE is set, but "${scheme}:" sends everything unencrypted, including passwords. Use "${scheme}s:" for TLS.`,
          { type: 'TenureWarning', code: 'INVALID_OPTION' },
        ],
      ])
    },
  )

  test('openStore names the variables when etcd has a user but no password', async () => {
    const opening = openStore('etcd://me@127.0.0.1:1', { environment: {} })
    await expect(opening).rejects.toThrow(/etcd:\/\/user:password@host.*TENURE_STORE_USER.*TENURE_STORE_PASSWORD/)
  })

  test('openStore reads credentials from the given environment', async () => {
    const environment = { TENURE_TOKEN: 'secret' }
    await expect(openStore('http://elections.example.com', { environment })).rejects.toThrow(/unencrypted/)
    expect(await openStore('http://elections.example.com', { environment: {} })).toMatchObject({ terms: true })
  })

  test('openStore does not take the fencing token of a shard for a credential', async () => {
    const environment = { TENURE_SHARD: '3', TENURE_TOKEN: '65537' }
    expect(await openStore('http://elections.example.com', { environment })).toMatchObject({ terms: true })
    const withFile = { ...environment, TENURE_TOKEN_FILE: '/run/token' }
    expect(await openStore('https://elections.example.com', { environment: withFile })).toMatchObject({ terms: true })
  })

  test('openStore opens an election service with credentials from the process environment', async () => {
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await openStore('http://elections.example.com:7070')).toMatchObject({ expiry: 'own-clock', terms: true })
    vi.stubEnv('TENURE_TOKEN', 'secret')
    expect(await openStore('https://a.example.com,https://b.example.com')).toMatchObject({ expiry: 'own-clock' })
    await expect(openStore('http://elections.example.com:7070')).rejects.toThrow(/unencrypted/)
    vi.stubEnv('TENURE_TOKEN_FILE', '/run/token')
    await expect(openStore('https://a.example.com')).rejects.toThrow(/TENURE_TOKEN is also set. Set only one of them/)
  })

  test.skipIf(process.platform === 'win32')(
    'openStore warns about a token file that every user of the machine can read',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tenure-token-'))
      const warnings: string[] = []
      const onWarning = ({ message }: Error) => void warnings.push(message)
      process.on('warning', onWarning)
      onTestFinished(() => {
        process.off('warning', onWarning)
        rmSync(folder, { recursive: true })
      })
      for (const [name, mode] of [
        ['mine.token', 0o600],
        ['group.token', 0o640],
        ['everybody.token', 0o644],
      ] as const) {
        const path = join(folder, name)
        writeFileSync(path, 'secret', { mode })
        chmodSync(path, mode)
        const store = await openStore('https://127.0.0.1:1', { environment: { TENURE_TOKEN_FILE: path } })
        await store.read('any', { signal: AbortSignal.timeout(5_000), timeoutMs: 5_000 }).catch(() => {})
        await store.close?.()
      }
      await vi.waitUntil(() => warnings.length > 0)
      expect(warnings).toEqual([
        `Any user on this machine can read the token in ${join(folder, 'everybody.token')}. Run: chmod 600 ${join(folder, 'everybody.token')}`,
      ])
    },
  )

  test('openStore opens the Leases of a namespace with the kubeconfig outside a pod', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
    onTestFinished(() => {
      vi.unstubAllEnvs()
      rmSync(folder, { recursive: true })
    })
    const config = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:6443' } }],
      users: [{ name: 'u', user: { token: 'secret' } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    }
    writeFileSync(join(folder, 'config'), JSON.stringify(config))
    vi.stubEnv('KUBERNETES_SERVICE_HOST', undefined)
    vi.stubEnv('POD_NAMESPACE', 'payments')
    vi.stubEnv('KUBECONFIG', join(folder, 'config'))
    expect(await openStore('kubernetes://jobs')).toMatchObject({ namespace: 'jobs', expiry: 'observed' })
    expect(await openStore('kubernetes://')).toMatchObject({ namespace: 'payments' })
  })
})
