import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { expect, onTestFinished, test } from 'vitest'
import { decodeRecord, encodeRecord } from '../../src/storage/record-text.ts'
import { openStorage, read, write } from './data-directories.ts'

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-lmdb-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

test('other work runs while many groups are read', async () => {
  const storage = await openStorage(newDirectory())
  onTestFinished(() => storage.close())
  const record = { term: 1, node: 'a', attempt: 'x', ttl: 5_000, at: 1, checkpoint: 'x'.repeat(200) }
  await write(storage, ...Array.from({ length: 30_000 }, (_, index) => ({ id: `group-${index}`, record })))
  let turns = 0
  const reading = read(storage).finally(() => clearImmediate(next))
  let next = setImmediate(function again() {
    turns += 1
    next = setImmediate(again)
  })
  expect(await reading).toHaveLength(30_000)
  expect(turns).toBeGreaterThan(3)
})

test('data of an unknown format is refused with a message and left unchanged', async () => {
  const directory = newDirectory()
  const storage = await openStorage(directory)
  await write(storage, { id: 'jobs', record: { term: 1 } })
  await storage.close()
  const path = join(directory, 'elections.mdb')
  const root = open({ path, maxDbs: 4, encoding: 'string', overlappingSync: false })
  const metas = root.openDB<string, string>({ name: 'meta', encoding: 'string' })
  const { value, commit, seq } = decodeRecord('meta', metas.get('meta') ?? '') ?? {}
  expect(value).toMatchObject({ format: 1 })
  const later = encodeRecord('meta', { ...(value as object), format: 2 } as object, {
    commit: commit ?? 0,
    seq: seq ?? 0,
  })
  await metas.put('meta', later)
  await root.close()
  const before = readFileSync(path)
  await expect(openStorage(directory)).rejects.toThrow(
    /data directory .+ cannot be used: it has format 2; this version reads format 1\. Use the version that wrote it/,
  )
  expect(readFileSync(path).equals(before)).toBe(true)
})

test('pending writes finish before the files are closed, and nothing is written to reused file descriptors', async () => {
  const directory = newDirectory()
  const storage = await openStorage(directory)
  const inFlight = Promise.all([storage.prove(), storage.check()])
  await Promise.all([storage.close(), inFlight])
  // These files reuse the descriptors of the files that were closed.
  const foreign = Array.from({ length: 8 }, (_, index) => join(directory, `foreign-${index}`))
  const files = foreign.map((path) => openSync(path, 'w'))
  onTestFinished(() => files.forEach((file) => closeSync(file)))
  await expect(storage.prove()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  await expect(storage.check()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(foreign.map((path) => readFileSync(path, 'latin1')).join('')).toBe('')
})
