/** Tests of data of the previous format, and of unknown formats. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { backupData, restoreData } from '../../src/storage/backup.ts'
import { openStorage, read, write } from './data.ts'
import { readFormat1, writeFormat1 } from './format-1.ts'

function newDirectory(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-upgrade-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

const groups = Array.from({ length: 2_500 }, (_, index) => ({
  id: `group-${String(index).padStart(4, '0')}`,
  record: { term: index + 1, node: 'a', attempt: 'x', ttl: 5_000, at: 1, ...(index % 2 === 0 && { ended: true }) },
}))
const commitsOf = (directory: string) => Number(readFileSync(join(directory, 'lock'), 'latin1').slice(0, 16))

test('data of format 1 is upgraded in place once and keeps its content', async () => {
  const directory = newDirectory()
  await writeFormat1(directory, groups, { restores: 2 })
  const first = await openStorage(directory)
  const head = await first.head()
  expect(head).toMatchObject({ clusterId: 'cluster', restores: 2, term: 0, seq: 0 })
  expect(head.secret).toMatch(/^[0-9a-f]{32}$/)
  expect(await read(first)).toEqual(groups.map((group) => ({ ...group, seq: 0 })))
  await first.close()
  const commits = commitsOf(directory)
  const second = await openStorage(directory)
  expect(await second.head()).toEqual(head)
  await write(second, { id: 'group-0001', record: { term: 7_000 } })
  const found = await read(second)
  expect(found).toHaveLength(groups.length)
  expect(found[1]).toEqual({ id: 'group-0001', record: { term: 7_000 }, seq: 1 })
  await second.close()
  expect(commitsOf(directory)).toBe(commits + 1)
})

test('a version that knows only format 1 refuses upgraded data with a message', async () => {
  const directory = newDirectory()
  await writeFormat1(directory, groups.slice(0, 3))
  expect(await readFormat1(directory)).toMatchObject({ format: 1 })
  const storage = await openStorage(directory)
  await storage.close()
  await expect(readFormat1(directory)).rejects.toThrow('it has format 2; this version reads format 1.')
})

test('an unknown format is refused and left unchanged', async () => {
  const directory = newDirectory()
  await writeFormat1(directory, groups.slice(0, 3), { format: 4 })
  const before = readFileSync(join(directory, 'elections.mdb'))
  const refusal =
    /data directory .+ cannot be used: it has format 4; this version reads formats 1 to 3\. Use the version/
  await expect(openStorage(directory)).rejects.toThrow(refusal)
  expect(readFileSync(join(directory, 'elections.mdb')).equals(before)).toBe(true)
})

test('a backup of format 1 data has format 1 and can be restored', async () => {
  const directory = newDirectory()
  await writeFormat1(directory, groups, { restores: 2, place: '1.1' })
  const data = `${directory}-backup`
  await backupData({ data: directory, to: data })
  expect(await readFormat1(directory)).toEqual({ format: 1, clusterId: 'cluster', restores: 2, place: '1.1' })
  expect(await readFormat1(data)).toEqual({ format: 1, clusterId: 'cluster', restores: 2, place: 'backup' })
  await expect(openStorage(data)).rejects.toThrow('it is a backup')
  await restoreData({ data })
  const restored = await openStorage(data)
  expect(await restored.head()).toMatchObject({ clusterId: 'cluster', restores: 3 })
  expect(await read(restored)).toEqual(groups.map((group) => ({ ...group, seq: 0 })))
  await restored.close()
})
