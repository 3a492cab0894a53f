/** Tests which users may use a data directory, and what other users of the machine can do to it. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { backupData, restoreData } from '../../src/storage/backup.ts'
import { openStorage } from './data-directories.ts'

const isRoot = process.getuid?.() === 0
const stranger = 65_534

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-rights-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts and stops the storage. Returns its warnings. */
async function use(directory: string): Promise<readonly string[]> {
  const storage = await openStorage(directory)
  await storage.close()
  return storage.warnings
}

const modeOf = (path: string) => statSync(path).mode & 0o777

describe.skipIf(process.platform === 'win32')('permissions of a data directory', () => {
  test('a data directory is created for its owner only', async () => {
    const directory = join(newFolder(), 'data')
    expect(await use(directory)).toEqual([])
    expect(modeOf(directory)).toBe(0o700)
    for (const name of ['lock', 'elections.mdb', 'elections.mdb-lock']) {
      expect(modeOf(join(directory, name)), name).toBe(0o600)
    }
  })

  test('a data directory that others may read is used with a warning that says what to do', async () => {
    const directory = join(newFolder(), 'data')
    await use(directory)
    chmodSync(directory, 0o755)
    chmodSync(join(directory, 'lock'), 0o644)
    const warnings = await use(directory)
    expect(warnings).toEqual([
      expect.stringMatching(/other users .+ chmod 700 .+data$/),
      expect.stringMatching(/other users .+ chmod 600 .+lock$/),
    ])
  })

  test('a data directory that everyone may write is refused', async () => {
    const directory = join(newFolder(), 'data')
    mkdirSync(directory)
    chmodSync(directory, 0o777)
    await expect(use(directory)).rejects.toThrow(/every user can write to .+data.+chmod 700 .+data/)
    chmodSync(directory, 0o700)
    await use(directory)
    chmodSync(join(directory, 'elections.mdb'), 0o666)
    await expect(use(directory)).rejects.toThrow(/every user can write to .+elections\.mdb.+chmod 600/)
  })

  test.each(['lock', 'elections.mdb', 'elections.mdb-lock'])(
    'a data directory with a link in place of %s is refused',
    async (name) => {
      const folder = newFolder()
      const directory = join(folder, 'data')
      await use(directory)
      renameSync(join(directory, name), join(folder, 'elsewhere'))
      symlinkSync(join(folder, 'elsewhere'), join(directory, name))
      await expect(use(directory)).rejects.toThrow(`${name} is not a regular file`)
    },
  )

  test('a data directory that is itself a link is followed, because systemd creates such links', async () => {
    const folder = newFolder()
    mkdirSync(join(folder, 'data'), { mode: 0o700 })
    symlinkSync(join(folder, 'data'), join(folder, 'link'))
    expect(await use(join(folder, 'link'))).toEqual([])
  })
})

describe.skipIf(!isRoot)('another user (needs root)', () => {
  const asStranger = { uid: stranger, gid: stranger }

  /** Starts and stops a service. Returns its errors. */
  async function serveAsStranger(directory: string): Promise<string> {
    const code = `import('@tenure/service').then(async ({ startService }) => {
      // Load all modules first, because the other user may not be allowed to read them.
      const early = await startService({ data: ${JSON.stringify(`${directory}-of-root`)}, port: 0 })
      await early.close()
      process.setgroups([])
      process.setgid(${stranger})
      process.setuid(${stranger})
      const service = await startService({ data: ${JSON.stringify(directory)}, port: 0 })
      await service.close()
    })`
    const child = spawn(process.execPath, ['-e', code], {
      cwd: import.meta.dirname,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const said = text(child.stderr)
    await once(child, 'exit')
    return said
  }

  /** A data directory of the stranger, without the files that a service creates if they are missing. */
  async function bareData(): Promise<string> {
    const folder = newFolder()
    chmodSync(folder, 0o755)
    const directory = join(folder, 'data')
    await use(directory)
    for (const name of ['lock', 'elections.mdb-lock']) rmSync(join(directory, name))
    for (const path of [directory, join(directory, 'elections.mdb')]) chownSync(path, stranger, stranger)
    return directory
  }

  test('another user cannot redirect the data of root with a link, and nothing is created at its target', async () => {
    const folder = newFolder()
    const target = join(folder, 'theirs')
    mkdirSync(target, { mode: 0o700 })
    for (const leads of [target, join(target, 'missing')]) {
      const link = join(folder, `link-${leads.length}`)
      symlinkSync(leads, link)
      lchownSync(link, stranger, stranger)
      await expect(use(link)).rejects.toThrow(new RegExp(`${link} is a link owned by user ${stranger}`))
      expect(readdirSync(target)).toEqual([])
      lchownSync(link, 0, 0)
    }
    expect(await use(join(folder, `link-${target.length}`))).toEqual([])
  })

  test.each<[string, (data: string) => Promise<void>]>([
    ['restore', (data) => restoreData({ data })],
    ['backup', (data) => backupData({ data, to: `${data}-backup` })],
  ])(
    'another user can serve the data after a %s by root, because new files get the owner of the directory',
    async (_name, call) => {
      const directory = await bareData()
      await call(directory)
      expect(readdirSync(directory)).toEqual(['elections.mdb', 'elections.mdb-lock', 'lock'])
      for (const name of readdirSync(directory)) {
        expect(statSync(join(directory, name)), name).toMatchObject({ uid: stranger, gid: stranger })
      }
      expect(await serveAsStranger(directory)).not.toContain('Error')
    },
  )

  test('another user does not become the owner of an existing file of root', async () => {
    const directory = await bareData()
    // This could be a system file that is linked into the directory.
    writeFileSync(join(directory, 'lock'), '', { mode: 0o600 })
    await use(directory)
    expect(statSync(join(directory, 'lock'))).toMatchObject({ uid: 0, gid: 0 })
  })

  test.each(['lock', 'elections.mdb', 'elections.mdb-lock', '.'])(
    'a user who may not use %s gets a message that says what to do',
    async (name) => {
      const directory = await bareData()
      await use(directory)
      chownSync(join(directory, name), 0, 0)
      expect(await serveAsStranger(directory)).toMatch(
        /cannot be used: EACCES.+Change the owner of the directory and its files to the user that runs the service: chown -R 65534 .+data\n/,
      )
    },
  )

  test('another user can neither read, lock, nor add files', async () => {
    const directory = join(newFolder(), 'data')
    chmodSync(join(directory, '..'), 0o755)
    await use(directory)
    for (const command of [`cat ${directory}/lock`, `ls ${directory}`, `touch ${directory}/planted`]) {
      expect(() => execFileSync('sh', ['-c', command], { ...asStranger, stdio: 'pipe' }), command).toThrow(/denied/)
    }
  })

  test('a directory of another user is refused, because that user could replace the data', async () => {
    const folder = newFolder()
    chmodSync(folder, 0o755)
    const directory = join(folder, 'data')
    mkdirSync(directory)
    chownSync(directory, 1_234, 1_234)
    chmodSync(directory, 0o775)
    chownSync(directory, 1_234, stranger)
    expect(await serveAsStranger(directory)).toMatch(/belongs to user 1234.+chown 65534/s)
    // Root can do anything regardless, and is only warned.
    expect(await use(directory)).toEqual([expect.stringContaining('belongs to user 1234')])
  })
})
