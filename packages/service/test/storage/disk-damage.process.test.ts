import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { restoreData } from '../../src/storage/backup.ts'
import { ServiceProcess } from '../disk/service-process.ts'
import { openStorage, read, write } from './data-directories.ts'

const groups = 500

/** Data whose file was changed by `damage`. */
async function damaged(damage: (path: string) => void): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-damaged-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const lease = { node: 'a', attempt: 'x', ttl: 60_000, at: 1 }
  const all = Array.from({ length: groups }, (_, index) => ({
    id: `group-${index}`,
    record: { term: 7_000 + index, ...lease },
  }))
  const storage = await openStorage(directory)
  await write(storage, ...all)
  await storage.close()
  damage(join(directory, 'elections.mdb'))
  return directory
}

function edit(path: string, change: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path)
  change(bytes)
  writeFileSync(path, bytes)
}

describe('damaged data', () => {
  const commitOf = (bytes: Buffer, page: number) => Number(bytes.readBigUInt64LE(page * 4_096 + 152))
  const setCommit = (bytes: Buffer, page: number, commit: number) =>
    bytes.writeBigUInt64LE(BigInt(commit), page * 4_096 + 152)

  test.each([
    ['a pointer to the previous commit with a higher number', (newest: number) => newest + 1],
    ['a pointer to the newest commit with a lower number', (newest: number) => newest - 2],
  ] as const)('data with %s is refused', async (_name, wrong) => {
    const change = (bytes: Buffer) => {
      const newest = Math.max(commitOf(bytes, 0), commitOf(bytes, 1))
      const number = wrong(newest)
      setCommit(bytes, number % 2, number)
    }
    const directory = await damaged((path) => edit(path, change))
    const state = openStorage(directory).then(async (storage) => {
      onTestFinished(() => storage.close())
      return read(storage)
    })
    await expect(state).rejects.toThrow(/newest commit is|older than the data that this directory has had/)
  })

  const jsonOf = (term: number) => `{"term":${term},"node":"a","attempt":"x","ttl":60000,"at":1}`
  // The match includes everything between the key and the record.
  const recordOf = (bytes: Buffer, term: number) =>
    new RegExp(`(?<=group-${term - 7_000}).{8}[0-9a-z.]+${jsonOf(term)}`).exec(bytes.toString('latin1'))?.[0] ?? ''

  test.each([
    ['a changed digit of a term', (bytes: Buffer) => recordOf(bytes, 7_123).replace('7123', '6123')],
    ['a record in the place of another', (bytes: Buffer) => recordOf(bytes, 7_124)],
  ])('data with %s is refused', async (_name, instead) => {
    const directory = await damaged((path) =>
      edit(path, (bytes) => {
        const record = recordOf(bytes, 7_123)
        const other = instead(bytes)
        expect(other).toHaveLength(record.length)
        // Replace all occurrences, because pages that were split still have the moved records.
        for (let at = bytes.indexOf(record); at > 0; at = bytes.indexOf(record)) bytes.write(other, at)
      }),
    )
    const storage = await openStorage(directory)
    onTestFinished(() => storage.close())
    await expect(read(storage)).rejects.toThrow(/record of group "group-123" is damaged.+tenure restore --data/)
  })

  test('data with a duplicate group in the place of another is refused', async () => {
    const directory = await damaged((path) =>
      edit(path, (bytes) => {
        const record = `group-123${recordOf(bytes, 7_123)}`
        const other = `group-124${recordOf(bytes, 7_124)}`
        for (let at = bytes.indexOf(record); at > 0; at = bytes.indexOf(record)) bytes.write(other, at)
      }),
    )
    const storage = await openStorage(directory)
    onTestFinished(() => storage.close())
    await expect(read(storage)).rejects.toThrow(/groups are missing/)
  })

  test.each<[string, (path: string) => void]>([
    ['a truncated file', (path) => truncateSync(path, 40_960)],
    ['a file that begins with other bytes', (path) => edit(path, (bytes) => bytes.fill(0xa5, 0, 8_192))],
    ['a missing file', (path) => rmSync(path)],
    ['an empty file', (path) => truncateSync(path)],
    ['empty pages', (path) => edit(path, (bytes) => bytes.fill(0, 12_288))],
  ])('data with %s is refused', async (_name, damage) => {
    await expect(ServiceProcess.start({ directory: await damaged(damage) })).rejects.toThrow(
      /data directory .+ cannot be used: .+\. Replace it with a backup, then run "tenure restore --data .+" once\./,
    )
  })
})

test('data that was replaced by older data is refused until a restore', async () => {
  const directory = await damaged(() => {})
  const path = join(directory, 'elections.mdb')
  const older = readFileSync(path)
  const first = await openStorage(directory)
  await write(first, { id: 'group-1', record: { term: 9_000 } })
  await first.close()
  // Written into the same file, so that it is not a copy.
  writeFileSync(path, older)
  await expect(openStorage(directory)).rejects.toThrow(
    /older than the data that this directory has had.+tenure restore --data/,
  )
  await restoreData({ data: directory })
  const again = await openStorage(directory)
  onTestFinished(() => again.close())
  expect((await again.head()).restores).toBe(1)
  expect(await read(again)).toHaveLength(groups)
})

test.skipIf(process.platform !== 'linux')('a data directory that cannot be created is refused at once', async () => {
  await expect(openStorage('/proc/nowhere/data')).rejects.toThrow(/ENOENT/)
})
