/** Tests of how a data directory detects that it is a copy, or older than before. */
import { closeSync, cpSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { restoreData } from '../../src/storage/backup.ts'
import { isCopy, fileIdentity } from '../../src/storage/data-file.ts'
import { openStorage, write } from './data-directories.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-places-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts and stops the storage. Returns how many times this data was restored. */
async function restoresOf(directory: string): Promise<number> {
  const storage = await openStorage(directory)
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
      expect(text).toContain(`"place":"${fileIdentity(file)}"`)
      expect(fileIdentity(file)).toMatch(/^\d+\.\d+$/)
    }
  },
)

test('copied and older data is refused until a restore, and each restore skips terms', async () => {
  const folder = newFolder()
  const data = join(folder, 'data')
  const copy = join(folder, 'copy')
  expect(await restoresOf(data)).toBe(0)
  cpSync(data, copy, { recursive: true })
  await expect(restoresOf(copy)).rejects.toThrow(/it is a copy/)
  await restoreData({ data: copy })
  expect(await restoresOf(copy)).toBe(1)
  await restoreData({ data: copy })
  expect(await restoresOf(copy)).toBe(2)
  // Older data in the same file.
  cpSync(join(data, 'elections.mdb'), join(folder, 'older.mdb'))
  expect(await restoresOf(data)).toBe(0)
  cpSync(join(folder, 'older.mdb'), join(data, 'elections.mdb'))
  await expect(restoresOf(data)).rejects.toThrow(/older than the data that this directory has had/)
  await restoreData({ data })
  expect(await restoresOf(data)).toBe(1)
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
  // A second start is also refused.
  await expect(restoresOf(data)).rejects.toThrow(refusal)
  await restoreData({ data })
  expect(await restoresOf(data)).toBe(1)
  expect(await restoresOf(data)).toBe(1)
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
