import { chmodSync, chownSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms, describeWithRight } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { Granted, Outcome } from '../../../src/engine/lease-store.ts'
import { noOtherUsers, User } from '../file/other-user.ts'
import { call, claimOf, connect, granted, newPath, openAt, short } from './fixtures.ts'

const urlOf = (path: string) => pathToFileURL(path).href.replace('file:', 'sqlite:')
const unavailable = (text: string) => ({ code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(text) })
const unopened = (path: string) => unavailable(`"${path}". It cannot be opened.`)
const readOnly = unavailable('It is read-only for this process. Allow this user to write the file')

/** A database in which this process leads, with these permissions. */
async function led(fileMode: number, directoryMode: number) {
  const path = await newPath()
  writeFileSync(path, '')
  chmodSync(path, fileMode)
  chmodSync(dirname(path), directoryMode)
  const store = openAt(path)
  const { record } = granted(await store.acquire(claimOf({ leaseDurationMs: 60_000 }), call))
  return { path, store, record }
}

/** Leaves only the database itself, as the last process that uses it does when it ends. */
function leaveDatabaseAlone(path: string): void {
  connect(path).exec('PRAGMA wal_checkpoint(TRUNCATE)')
  for (const ending of ['-wal', '-shm']) rmSync(path + ending)
}

function filesNextTo(path: string): string[] {
  return readdirSync(dirname(path)).toSorted()
}

/** Tests of processes that this Node.js runs. They open the file by its URL, with the client that Node.js determines. */
function otherUsers(runtime: () => string): void {
  const startAt = async (path: string, user?: number, group?: number) => {
    const started = await User.start(user, group, runtime())
    await started.do('openUrl', urlOf(path))
    return started
  }

  test('another user that may only read the file reads records, and every write fails and changes nothing', async () => {
    const { path, store, record } = await led(0o644, 0o755)
    const other = await startAt(path)
    expect(await other.do('read', 'jobs')).toEqual(record)
    expect(await other.do('acquire', 'mallory')).toMatchObject({ ok: false, highestTerm: 1 })
    await expect(other.do('renew', held(record))).rejects.toMatchObject(readOnly)
    await expect(other.do('release', held(record))).rejects.toMatchObject(readOnly)
    expect(await store.read('jobs', call)).toEqual(record)
    expect(granted(await store.renew(held(record), call)).record.term).toBe(1)
  })

  test.each([
    ['a read-only file', 0o644],
    ['a writable file', 0o666],
  ])('%s in a read-only directory cannot even be read while nobody else has it open', async (_, fileMode) => {
    const { path, record } = await led(fileMode, 0o755)
    leaveDatabaseAlone(path)
    const other = await startAt(path)
    for (const doing of [() => other.do('read', 'jobs'), () => other.do('renew', held(record))]) {
      await expect(doing()).rejects.toMatchObject(readOnly)
    }
    expect(filesNextTo(path)).toEqual(['leases.db'])
    expect(await openAt(path).read('jobs', call)).toEqual(record)
  })

  test('another user has no access to a file that only its owner may read', async () => {
    const { path, record } = await led(0o600, 0o755)
    const modes = ['', '-wal', '-shm'].map((ending) => (statSync(path + ending).mode & 0o777).toString(8))
    expect(modes).toEqual(['600', '600', '600'])
    const other = await startAt(path)
    for (const doing of [() => other.do('read', 'jobs'), () => other.do('renew', held(record))]) {
      await expect(doing()).rejects.toMatchObject(unopened(path))
    }
    await expect(other.do('lockShared', `${path}-shm`)).rejects.toMatchObject({ code: 'EACCES' })
  })

  test('another user that may read the files can lock them, and then nobody is elected', async () => {
    const { path, store, record } = await led(0o644, 0o755)
    const other = await startAt(path)
    expect(await other.do('lockShared', `${path}-shm`)).toBe(true)
    await expect(store.renew(held(record), short)).rejects.toMatchObject({ code: 'TIMEOUT' })
    await expect(store.acquire(claimOf({ election: 'mail' }), short)).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(await store.read('jobs', call)).toEqual(record)
  })

  test('users of one group share a file with mode 0660 in a directory of the group', async () => {
    const [ada, bob, mallory, group] = [60_001, 60_002, 60_003, 60_000]
    const directory = join(dirname(await newPath()), 'shared')
    chmodSync(dirname(directory), 0o755)
    mkdirSync(directory)
    chownSync(directory, 0, group)
    chmodSync(directory, 0o2770)
    const path = join(directory, 'leases.db')
    writeFileSync(path, '')
    chmodSync(path, 0o660)
    const first = await startAt(path, ada, group)
    const second = await startAt(path, bob, group)
    const won = await first.do<Granted>('acquire', 'ada')
    expect(await second.do<Outcome>('acquire', 'bob', 1)).toMatchObject({ ok: false, record: { holder: 'ada' } })
    expect(await first.do('release', held(won.record))).toMatchObject({ ok: true })
    expect(await second.do('acquire', 'bob', 1)).toMatchObject({ ok: true, record: { holder: 'bob', term: 2 } })
    for (const ending of ['', '-wal', '-shm']) {
      expect((statSync(path + ending).mode & 0o777).toString(8)).toBe('660')
    }
    const stranger = await startAt(path, mallory)
    for (const doing of [() => stranger.do('read', 'jobs'), () => stranger.do('acquire', 'mallory', 2)]) {
      await expect(doing()).rejects.toMatchObject(unavailable(`"${path}". The system denied access.`))
    }
  })
}

describeWithRight(noOtherUsers, 'other users of the machine on one SQLite file', () => {
  describe('in the Node.js of the tests', () => otherUsers(() => process.execPath))
  describeWithPrograms([programs.node24], 'with the SQLite of Node.js 24', () =>
    otherUsers(() => pathOf(programs.node24)),
  )
})
