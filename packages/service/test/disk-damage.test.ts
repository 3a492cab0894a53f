import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { Disk } from '../src/embedded/disk.ts'
import { ServiceProcess } from './disk/service-process.ts'

const groups = 500
let whole = ''

beforeAll(async () => {
  whole = mkdtempSync(join(tmpdir(), 'tenure-whole-'))
  const disk = await Disk.open(whole, () => 'cluster')
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
  const recordOf = (term: number) => `{"term":${term},"node":"a","attempt":"x","ttl":60000,"at":1}`

  test.each([
    ['a single digit of a term', recordOf(6_123)],
    ['a record in the place of another', recordOf(7_124)],
  ])('%s', async (_name, other) => {
    const directory = damaged((path) =>
      edit(path, (bytes) => {
        const record = recordOf(7_123)
        // More than once: pages that were split still have what has moved.
        for (let at = bytes.indexOf(record); at > 0; at = bytes.indexOf(record)) bytes.write(other, at)
      }),
    )
    const disk = await Disk.open(directory, () => 'other')
    onTestFinished(() => disk.close())
    expect(() => [...disk.all()]).toThrow(/record of group "group-123" is damaged.+--after-restore/)
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
