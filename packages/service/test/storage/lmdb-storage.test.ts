import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openStorage, read, write } from './data.ts'

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-lmdb-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

test('other work runs while a great many groups are read', async () => {
  const storage = await openStorage(newDirectory())
  onTestFinished(() => storage.close())
  const record = { term: 1, node: 'a', attempt: 'x', ttl: 5_000, at: 1, carry: 'x'.repeat(200) }
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

test('pending writes end before the files are closed, and nothing is written to reused file descriptors', async () => {
  const directory = newDirectory()
  const storage = await openStorage(directory)
  const underWay = Promise.all([storage.prove(), storage.check()])
  await Promise.all([storage.close(), underWay])
  // These files reuse the descriptors of the files that were closed.
  const foreign = Array.from({ length: 8 }, (_, index) => join(directory, `foreign-${index}`))
  const files = foreign.map((path) => openSync(path, 'w'))
  onTestFinished(() => files.forEach((file) => closeSync(file)))
  await expect(storage.prove()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  await expect(storage.check()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(foreign.map((path) => readFileSync(path, 'latin1')).join('')).toBe('')
})
