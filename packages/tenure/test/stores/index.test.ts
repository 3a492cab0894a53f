import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { AcquireClaim } from '../../src/lease-store.ts'
import { openStore } from '../../src/stores/index.ts'

const call = { signal: new AbortController().signal }

function claim(election: string, attempt: string): AcquireClaim {
  return { election, holder: attempt, attempt, leaseDurationMs: 10_000, afterTerm: 0, metadata: {} }
}

describe('openStore', () => {
  let folder: string | undefined
  afterEach(async () => {
    if (folder) await rm(folder, { recursive: true })
    folder = undefined
  })

  test('gives all callers of "memory:" one store, so that only one of them leads', async () => {
    const [one, other] = await Promise.all([openStore('memory:'), openStore('memory:')])
    const outcomes = [
      await one.acquire(claim('open store', 'a1'), call),
      await other.acquire(claim('open store', 'b1'), call),
    ]
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false])
  })

  test('opens a directory', async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenure open store '))
    const store = await openStore(pathToFileURL(join(folder, 'léases')).href)
    expect(await store.acquire(claim('open store', 'a1'), call)).toMatchObject({ ok: true })
    await store.close?.()
    expect((await readdir(folder)).map((name) => name.normalize())).toEqual(['léases'])
  })

  test.each([
    [
      'flie:///leases',
      'There is no store for "flie:". Did you mean "file:"? Known are "memory:", "file:", "kubernetes:", "http:", "https:".',
    ],
    [
      'mem:',
      'There is no store for "mem:". Did you mean "memory:"? Known are "memory:", "file:", "kubernetes:", "http:", "https:".',
    ],
    [
      'constructor:',
      'There is no store for "constructor:". Known are "memory:", "file:", "kubernetes:", "http:", "https:".',
    ],
    [
      'quux://user:password@host',
      'There is no store for "quux:". Known are "memory:", "file:", "kubernetes:", "http:", "https:".',
    ],
  ])('names what it knows when it does not know %s', async (url, message) => {
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
    'file:///%2F',
    'kubernetes:default',
    'kubernetes://a/b',
    'kubernetes://token@default',
    'kubernetes://default?x=1',
    'http://',
    'https://user:password@host',
    'https://host?x=1',
    'https://host,ftp://host',
  ])('refuses "%s", which it would have to guess at', async (url) => {
    const refusal = expect(openStore(url)).rejects
    await refusal.toThrow(TypeError)
    await expect(openStore(url)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test.each([
    '/leases/user:hunter2@host',
    'memory:hunter2@',
    'file://user:hunter2@host/a',
    'kubernetes://user:hunter2@default',
    'https://user:hunter2@host:99999',
    'https://user:hunter2@host',
    'https://host?token=hunter2',
    'https://host,https://user:hunter2@host',
  ])('shows no password that stands in %s', async (url) => {
    const error: unknown = await openStore(url).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(String(error)).not.toContain('hunter2')
  })

  test('looks for credentials in another environment, if it is given one', async () => {
    const environment = { TENURE_TOKEN: 'secret' }
    await expect(openStore('http://elections.example.com', { environment })).rejects.toThrow(/in the clear/)
    expect(await openStore('http://elections.example.com', { environment: {} })).toMatchObject({ terms: true })
  })

  test('opens an election service, with what the environment gives', async () => {
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await openStore('http://elections.example.com:7070')).toMatchObject({ expiry: 'own-clock', terms: true })
    vi.stubEnv('TENURE_TOKEN', 'secret')
    expect(await openStore('https://a.example.com,https://b.example.com')).toMatchObject({ expiry: 'own-clock' })
    await expect(openStore('http://elections.example.com:7070')).rejects.toThrow(/in the clear/)
    vi.stubEnv('TENURE_TOKEN_FILE', '/run/token')
    await expect(openStore('https://a.example.com')).rejects.toThrow(/TENURE_TOKEN is set as well/)
  })

  test('opens Leases of a namespace, with the kubeconfig outside of a pod', async () => {
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
