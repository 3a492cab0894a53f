/** Tests of how a data directory detects that it is a copy, and of data of versions that recorded nothing. */
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { restoreData } from '../../src/storage/backup.ts'
import { isCopy, placeOf } from '../../src/storage/data-file.ts'
import type { LmdbStorageOptions } from '../../src/storage/lmdb-storage.ts'
import { openStorage, write } from './data.ts'
import { writeFormat1 } from './format-1.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-places-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts and stops the storage. Returns how often this data was restored. */
async function restoresOf(directory: string, restored?: LmdbStorageOptions['restored']): Promise<number> {
  const storage = await openStorage(directory, { restored })
  const { restores } = await storage.head()
  await write(storage, { id: 'jobs', record: { term: 1 } })
  await storage.close()
  return restores
}

test('a file is identified by its inode and by its birth time if that is known', () => {
  expect(isCopy('7.100', '7.100')).toBe(false)
  expect(isCopy('7.100', '8.100')).toBe(true)
  // A new file may get the inode number of a deleted one.
  expect(isCopy('7.100', '7.200')).toBe(true)
  expect(isCopy('7.', '7.100')).toBe(false)
  expect(isCopy('7.100', '7.')).toBe(false)
  expect(isCopy('7.', '8.')).toBe(true)
})

test.skipIf(process.platform !== 'linux')(
  'the birth time of a new file is recorded from the first start on',
  async () => {
    for (let index = 0; index < 10; index++) {
      const data = join(newFolder(), 'data')
      await restoresOf(data)
      const file = openSync(join(data, 'elections.mdb'), 'r')
      onTestFinished(() => closeSync(file))
      const text = readFileSync(join(data, 'elections.mdb'), 'latin1')
      expect(text).toContain(`"place":"${placeOf(file)}"`)
      expect(placeOf(file)).toMatch(/^\d+\.\d+$/)
    }
  },
)

test('data of the previous format starts unchanged, and a later copy is detected', async () => {
  const folder = newFolder()
  const data = join(folder, 'data')
  await writeFormat1(data, [{ id: 'jobs', record: { term: 1 } }])
  cpSync(data, join(folder, 'before'), { recursive: true })

  expect(await restoresOf(data)).toBe(0)
  cpSync(data, join(folder, 'after'), { recursive: true })
  expect(await restoresOf(data)).toBe(0)
  // Nothing was recorded at that time.
  expect(await restoresOf(join(folder, 'before'))).toBe(0)
  await expect(restoresOf(join(folder, 'after'))).rejects.toThrow(/it is a copy/)
})

test('data that cannot be upgraded for any reason other than a full disk is refused', async () => {
  const data = join(newFolder(), 'data')
  await writeFormat1(data, [{ id: 'jobs', record: { term: 1 } }])
  // The id is requested once the files are open, before anything is written.
  const newId = () => {
    renameSync(data, `${data}-moved`)
    return 'cluster'
  }
  await expect(openStorage(data, { newId })).rejects.toThrow(/cannot be used: The data directory cannot be written/)
})

test('the restored option skips terms once per directory, and again for the next copy', async () => {
  const folder = newFolder()
  const data = join(folder, 'data')
  await restoresOf(data)
  expect(await restoresOf(data, 'once')).toBe(1)
  expect(await restoresOf(data, 'once')).toBe(1)
  cpSync(data, join(folder, 'copy'), { recursive: true })
  expect(await restoresOf(join(folder, 'copy'), 'once')).toBe(2)
  expect(await restoresOf(join(folder, 'copy'), 'once')).toBe(2)
  // Older data in the same file.
  cpSync(join(data, 'elections.mdb'), join(folder, 'older.mdb'))
  await restoresOf(data)
  cpSync(join(folder, 'older.mdb'), join(data, 'elections.mdb'))
  await expect(restoresOf(data)).rejects.toThrow(/older than the data that this directory has had/)
  expect(await restoresOf(data, 'once')).toBe(2)
})

test('the restored option skips nothing after a restore, and each restore skips terms again', async () => {
  const data = join(newFolder(), 'data')
  await restoresOf(data)
  await restoreData({ data })
  expect(await restoresOf(data, 'once')).toBe(1)
  await restoreData({ data })
  expect(await restoresOf(data)).toBe(2)
})

test.each<[string, (path: string) => void]>([
  ['missing', (path) => rmSync(path)],
  ['empty', (path) => truncateSync(path)],
  ['damaged', (path) => writeFileSync(path, 'x'.repeat(65))],
])('data with groups is refused when the lock file is %s, and a restore skips its terms', async (_name, harm) => {
  const data = join(newFolder(), 'data')
  await restoresOf(data)
  harm(join(data, 'lock'))
  const refusal =
    /lock file is missing, empty, or damaged.+If the original directory .+ use that one\. .+tenure restore --data/
  await expect(restoresOf(data)).rejects.toThrow(refusal)
  // A second start is refused too.
  await expect(restoresOf(data)).rejects.toThrow(refusal)
  await restoreData({ data })
  expect(await restoresOf(data)).toBe(1)
  harm(join(data, 'lock'))
  expect(await restoresOf(data, 'once')).toBe(2)
  expect(await restoresOf(data)).toBe(2)
})

test.each<[string, (path: string) => void]>([
  ['missing', (path) => rmSync(path)],
  ['empty', (path) => truncateSync(path)],
])(
  'a first start that ended before any group was written can be repeated when the lock file is %s',
  async (_name, harm) => {
    const data = join(newFolder(), 'data')
    const first = await openStorage(data)
    await first.close()
    harm(join(data, 'lock'))
    expect(await restoresOf(data)).toBe(0)
    expect(await restoresOf(data)).toBe(0)
  },
)
