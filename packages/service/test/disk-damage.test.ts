import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { Disk } from '../src/embedded/disk.ts'
import { ServiceProcess } from './disk/service-process.ts'

const groups = 500
let whole = ''

const openDisk = (directory: string, restored = false) => Disk.open({ directory, newId: () => 'cluster', restored })

beforeAll(async () => {
  whole = mkdtempSync(join(tmpdir(), 'tenure-whole-'))
  const disk = await openDisk(whole)
  const writes = Array.from({ length: groups }, (_, index) =>
    disk.write(`group-${index}`, { term: 7_000 + index, node: 'a', attempt: 'x', ttl: 60_000, at: 1 }),
  )
  await Promise.all(writes)
  await disk.close()
})
afterAll(() => rmSync(whole, { recursive: true }))

/** A copy of the data with something done to its file. */
function damaged(damage: (path: string) => void): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-damaged-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  cpSync(whole, directory, { recursive: true })
  damage(join(directory, 'elections.mdb'))
  return directory
}

function edit(path: string, change: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path)
  change(bytes)
  writeFileSync(path, bytes)
}

describe('data that is damaged is not served:', () => {
  const commitOf = (bytes: Buffer, page: number) => Number(bytes.readBigUInt64LE(page * 4_096 + 152))
  const setCommit = (bytes: Buffer, page: number, commit: number) =>
    bytes.writeBigUInt64LE(BigInt(commit), page * 4_096 + 152)

  test.each([
    ['a pointer to the commit before, with a higher number', (newest: number) => newest + 1],
    ['a pointer to the newest commit, with a lower number', (newest: number) => newest - 2],
  ])('%s', async (_name, wrong) => {
    const directory = damaged((path) =>
      edit(path, (bytes) => {
        const newest = Math.max(commitOf(bytes, 0), commitOf(bytes, 1))
        const number = wrong(newest)
        setCommit(bytes, number % 2, number)
      }),
    )
    const state = openDisk(directory).then(async (disk) => {
      onTestFinished(() => disk.close())
      return [...disk.all()].length
    })
    await expect(state).rejects.toThrow(/newest commit is|older than what this directory has had/)
  })

  const jsonOf = (term: number) => `{"term":${term},"node":"a","attempt":"x","ttl":60000,"at":1}`
  // With all that stands between the key and it.
  const recordOf = (bytes: Buffer, term: number) =>
    new RegExp(`(?<=group-${term - 7_000}).{8}[0-9a-z]+${jsonOf(term)}`).exec(bytes.toString('latin1'))?.[0] ?? ''

  test.each([
    ['a single digit of a term', (bytes: Buffer) => recordOf(bytes, 7_123).replace('7123', '6123')],
    ['a record in the place of another', (bytes: Buffer) => recordOf(bytes, 7_124)],
  ])('%s', async (_name, instead) => {
    const directory = damaged((path) =>
      edit(path, (bytes) => {
        const record = recordOf(bytes, 7_123)
        const other = instead(bytes)
        expect(other).toHaveLength(record.length)
        // More than once: pages that were split still have what has moved.
        for (let at = bytes.indexOf(record); at > 0; at = bytes.indexOf(record)) bytes.write(other, at)
      }),
    )
    const disk = await openDisk(directory)
    onTestFinished(() => disk.close())
    expect(() => [...disk.all()]).toThrow(/record of group "group-123" is damaged.+--after-restore/)
  })

  test('a group that stands there twice, in the place of another', async () => {
    const directory = damaged((path) =>
      edit(path, (bytes) => {
        const record = `group-123${recordOf(bytes, 7_123)}`
        const other = `group-124${recordOf(bytes, 7_124)}`
        for (let at = bytes.indexOf(record); at > 0; at = bytes.indexOf(record)) bytes.write(other, at)
      }),
    )
    const disk = await openDisk(directory)
    onTestFinished(() => disk.close())
    expect(() => [...disk.all()]).toThrow(/groups are missing/)
  })

  test.each<[string, (path: string) => void]>([
    ['a file that was cut off', (path) => truncateSync(path, 40_960)],
    ['a file that begins with something else', (path) => edit(path, (bytes) => bytes.fill(0xa5, 0, 8_192))],
    ['a file that is gone', (path) => rmSync(path)],
    ['a file that is empty', (path) => truncateSync(path)],
    ['pages that are empty', (path) => edit(path, (bytes) => bytes.fill(0, 12_288))],
  ])('%s', async (_name, damage) => {
    await expect(ServiceProcess.start({ directory: damaged(damage) })).rejects.toThrow(
      /data directory .+ cannot be used/,
    )
  })
})

test('data that was put back is noticed, and served after it was said to be', async () => {
  const directory = damaged(() => {})
  const first = await openDisk(directory)
  await first.write('group-1', { term: 9_000 })
  await first.close()
  cpSync(join(whole, 'elections.mdb'), join(directory, 'elections.mdb'))
  await expect(openDisk(directory)).rejects.toThrow(/older than what this directory has had.+--after-restore/)
  const restored = await openDisk(directory, true)
  await restored.noteRestore()
  await restored.close()
  const again = await openDisk(directory)
  onTestFinished(() => again.close())
  expect(again.restores).toBe(1)
  expect([...again.all()]).toHaveLength(groups)
})

test.skipIf(process.platform !== 'linux')('a place in which no directory can be made is refused at once', async () => {
  await expect(openDisk('/proc/nowhere/data')).rejects.toThrow(/ENOENT/)
})
