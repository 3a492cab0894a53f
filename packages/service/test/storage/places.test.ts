/** How a data directory knows that it is a copy, and data of versions that noted nothing. */
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

/** Starts and stops. Returns how often these data were restored. */
async function restoresOf(directory: string, restored?: LmdbStorageOptions['restored']): Promise<number> {
  const storage = await openStorage(directory, { restored })
  const { restores } = await storage.head()
  await write(storage, { id: 'jobs', record: { term: 1 } })
  await storage.close()
  return restores
}

test('a file is known by its inode and its birth, where that is known', () => {
  expect(isCopy('7.100', '7.100')).toBe(false)
  expect(isCopy('7.100', '8.100')).toBe(true)
  // The number of a deleted file is given to the next one.
  expect(isCopy('7.100', '7.200')).toBe(true)
  expect(isCopy('7.', '7.100')).toBe(false)
  expect(isCopy('7.100', '7.')).toBe(false)
  expect(isCopy('7.', '8.')).toBe(true)
})

test.skipIf(process.platform !== 'linux')('the birth of a new file is noted from the first start on', async () => {
  for (let index = 0; index < 10; index++) {
    const data = join(newFolder(), 'data')
    await restoresOf(data)
    const file = openSync(join(data, 'elections.mdb'), 'r')
    onTestFinished(() => closeSync(file))
    const text = readFileSync(join(data, 'elections.mdb'), 'latin1')
    expect(text).toContain(`"place":"${placeOf(file)}"`)
    expect(placeOf(file)).toMatch(/^\d+\.\d+$/)
  }
})

test('data of the version before start as they are, and a copy made since is noticed', async () => {
  const folder = newFolder()
  const data = join(folder, 'data')
  await writeFormat1(data, [{ id: 'jobs', record: { term: 1 } }])
  cpSync(data, join(folder, 'before'), { recursive: true })

  expect(await restoresOf(data)).toBe(0)
  cpSync(data, join(folder, 'after'), { recursive: true })
  expect(await restoresOf(data)).toBe(0)
  // Nothing was noted then.
  expect(await restoresOf(join(folder, 'before'))).toBe(0)
  await expect(restoresOf(join(folder, 'after'))).rejects.toThrow(/it is a copy/)
})

test('data that cannot be completed for any other reason than a full disk are refused', async () => {
  const data = join(newFolder(), 'data')
  await writeFormat1(data, [{ id: 'jobs', record: { term: 1 } }])
  // The id is asked for when the files are open, before anything is written.
  const newId = () => {
    renameSync(data, `${data}-moved`)
    return 'cluster'
  }
  await expect(openStorage(data, { newId })).rejects.toThrow(/cannot be used: The data directory cannot be written/)
})

test('an option that somebody forgot to remove skips terms once for one directory, and again for the next copy', async () => {
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

test('after a restore the option skips nothing more, and each restore skips again', async () => {
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
])('data with groups whose lock file is %s are refused, and restored terms are skipped', async (_name, harm) => {
  const data = join(newFolder(), 'data')
  await restoresOf(data)
  harm(join(data, 'lock'))
  const refusal =
    /lock file is missing, empty, or damaged.+If the original directory .+ use that one\. .+tenure restore --data/
  await expect(restoresOf(data)).rejects.toThrow(refusal)
  // What was refused stays refused.
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
  'a first start that was broken off before any group was written is made again: its lock file is %s',
  async (_name, harm) => {
    const data = join(newFolder(), 'data')
    const first = await openStorage(data)
    await first.close()
    harm(join(data, 'lock'))
    expect(await restoresOf(data)).toBe(0)
    expect(await restoresOf(data)).toBe(0)
  },
)
