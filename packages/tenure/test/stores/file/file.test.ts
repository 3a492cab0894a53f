import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { encodeDuration } from '../../../src/stores/file/file-format.ts'
import { LeaseFiles } from '../../../src/stores/file/lease-files.ts'
import { fileStore, type FileStoreOptions } from '../../../src/stores/file/index.ts'
import { manualClock } from '../../../../testing/test/conformance/manual-clock.ts'
import { call, claim, files, grant, openStore, temporaryDirectory } from './fixtures.ts'

describe('fileStore conforms', () => {
  const cases = storeConformance(async () => {
    const directory = await temporaryDirectory()
    const clock = manualClock()
    const names = new LeaseFiles({ directory })
    return {
      store: openStore({ directory, clock }),
      pass: (ms) => clock.pass(ms),
      remove: (election) => rm(join(directory, names.fileName(election))),
      open: () => fileStore({ directory, clock }),
    }
  })
  for (const { name, run } of cases) test(name, run)
})

describe('the unit tests that document 000 requires of a backend', () => {
  const setUp = async () => {
    const directory = await temporaryDirectory()
    const clock = manualClock()
    return { clock, first: openStore({ directory, clock }), second: openStore({ directory, clock }) }
  }

  test('single instance acquires leadership', async () => {
    const { first } = await setUp()
    const { record, validForMs } = await grant(first)
    expect(record).toMatchObject({ election: 'jobs', holder: 'ada', term: 1, released: false })
    expect(validForMs).toBe(15_000)
  })

  test('second instance blocked while first holds lease', async () => {
    const { first, second } = await setUp()
    const { record } = await grant(first)
    const outcome = await second.acquire(claim({ holder: 'bob', afterTerm: 1 }), call())
    expect(outcome).toEqual({ ok: false, record, highestTerm: 1, retryAfterMs: 15_000 })
  })

  test('lease expiry allows takeover', async () => {
    const { clock, first, second } = await setUp()
    await grant(first)
    clock.pass(15_000)
    const { record } = await grant(second, { holder: 'bob', afterTerm: 1 })
    expect(record).toMatchObject({ holder: 'bob', term: 2 })
  })

  test('renewal extends lease', async () => {
    const { clock, first, second } = await setUp()
    const { record } = await grant(first)
    clock.pass(10_000)
    expect(await first.renew(record, call())).toMatchObject({ ok: true, validForMs: 15_000 })
    clock.pass(14_999)
    const outcome = await second.acquire(claim({ holder: 'bob', afterTerm: 1 }), call())
    expect(outcome).toMatchObject({ ok: false, retryAfterMs: 1 })
  })

  test('release allows immediate takeover', async () => {
    const { first, second } = await setUp()
    const { record } = await grant(first)
    expect(await first.release(record, call())).toMatchObject({ ok: true, record: { released: true } })
    expect((await grant(second, { holder: 'bob', afterTerm: 1 })).record.term).toBe(2)
  })
})

describe('the lease file', () => {
  test('the lease file is human-readable JSON in the format of document 000', async () => {
    const directory = await temporaryDirectory()
    const store = openStore({ directory, clock: manualClock() })
    const { record } = await grant(store, { metadata: { zone: 'az-a' } })
    const text = await readFile(files(directory).lease, 'utf8')
    expect(text.split('\n').length).toBeGreaterThan(10)
    const held = JSON.parse(text)
    expect(held).toMatchObject({
      holder: 'ada',
      renewTime: '2023-11-14T22:13:21.000Z',
      leaseDuration: '15s',
      term: 1,
      metadata: { zone: 'az-a' },
    })
    await store.release(record, call())
    expect(JSON.parse(await readFile(files(directory).lease, 'utf8'))).toMatchObject({ holder: '', lastHolder: 'ada' })
  })

  test('"path" names the file of one election, and other elections may not use it', async () => {
    const path = join(await temporaryDirectory(), 'deeper', 'leader.json')
    const store = openStore({ path })
    await grant(store)
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ election: 'jobs', holder: 'ada' })
    const error = await store.acquire(claim({ election: 'mail' }), call()).catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'RECORD_INVALID', retryable: false })
    expect(String(error)).toContain('it belongs to election "jobs", not to "mail"')
  })

  test('every election has its own file name, even on a case-insensitive file system', () => {
    const names = ['jobs', 'Jobs', 'JOBS', 'jobs.json', 'jobs.json.lock', 'jobs.json.term', 'j/bs', '../jobs', '.jobs']
    const endings = ['', '.lock', '.term', '.tmp', '.term.tmp']
    const lowered = names.flatMap((name) => {
      const file = new LeaseFiles({ directory: '/leases' }).fileName(name)
      expect(file).not.toMatch(/\/|^\./)
      return endings.map((ending) => (file + ending).toLowerCase())
    })
    expect(new Set(lowered).size).toBe(names.length * endings.length)
  })

  test.each([
    [15_000, '15s'],
    [500, '500ms'],
    [1_500, '1500ms'],
    [90_000, '90s'],
    [0.2, '1ms'],
  ])('encodeDuration writes %d ms as %s, never shorter', (ms, text) => {
    expect(encodeDuration(ms)).toBe(text)
  })
})

test('the store does not share objects with the caller, so later changes to them have no effect', async () => {
  const store = openStore({ directory: await temporaryDirectory() })
  const metadata = { zone: 'az-a' }
  await grant(store, { metadata })
  metadata.zone = 'az-b'
  expect((await store.read('jobs', call()))?.metadata).toEqual({ zone: 'az-a' })
})

test.each<[string, unknown, string]>([
  ['neither a directory nor a path', {}, 'directory'],
  ['no options', undefined, 'options'],
  ['both a directory and a path', { directory: 'a', path: 'b' }, 'directory'],
  ['an empty directory', { directory: '' }, 'directory'],
  ['a path that is not a string', { path: 7 }, 'path'],
  ['a path with a NUL character', { path: 'a\0b' }, 'path'],
  ['a fastTakeover that is not a boolean', { directory: 'a', fastTakeover: 'no' }, 'fastTakeover'],
  [
    'an allowNetworkFilesystem that is not a boolean',
    { directory: 'a', allowNetworkFilesystem: 1 },
    'allowNetworkFilesystem',
  ],
  ['a shareWithGroup that is not a boolean', { directory: 'a', shareWithGroup: 'leases' }, 'shareWithGroup'],
  ['an invalid clock', { directory: 'a', clock: {} }, 'clock'],
  ['a signOfLife that is not a function', { directory: 'a', signOfLife: '/a.sock' }, 'signOfLife'],
  [
    'a signOfLife together with fastTakeover: false',
    { directory: 'a', fastTakeover: false, signOfLife: () => {} },
    'fastTakeover',
  ],
])('fileStore refuses %s', (_, options, option) => {
  const open = () => fileStore(options as FileStoreOptions)
  expect(open).toThrow(TypeError)
  expect(open).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  expect(open).toThrow(`Option "${option}"`)
})

test('reads and watches create no directory, and show records once it exists', async () => {
  const directory = join(await temporaryDirectory(), 'not', 'yet')
  const reader = openStore({ directory })
  expect(await reader.read('jobs', call())).toBe(undefined)
  const seen = []
  for await (const record of reader.watch?.('jobs', call()) ?? []) seen.push(record)
  expect(seen).toEqual([undefined])
  expect(existsSync(dirname(directory))).toBe(false)
  const { record } = await grant(openStore({ directory }))
  expect(await reader.read('jobs', call())).toEqual(record)
  for await (const found of reader.watch?.('jobs', call()) ?? []) {
    expect(found).toEqual(record)
    break
  }
})

test('a closed file store rejects reads and ends watches', async () => {
  const store = openStore({ directory: await temporaryDirectory() })
  await store.close()
  await expect(store.read('jobs', call())).rejects.toMatchObject({ code: 'STOPPED' })
  for await (const _ of store.watch('jobs', call())) throw new Error('A closed store must show nothing.')
})
