import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createClient } from '@libsql/client'
import Database from 'libsql'
import { describe, expect, onTestFinished, test } from 'vitest'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { mayMount, smallDisk } from '../../../../../test/servers/small-disk.ts'
import { describeWithPrograms, describeWithRight } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { Granted, LeaseRecord } from '../../../src/engine/lease-store.ts'
import { openStore } from '../../../src/stores/index.ts'
import { sqliteStore, type SqliteClient } from '../../../src/stores/sqlite/index.ts'
import { mountFuse, mountReadOnly } from '../file/mount-filesystem.ts'
import { noOtherUsers, User } from '../file/other-user.ts'
import { call, claimOf, connect, granted, newPath, openAt } from './fixtures.ts'

const urlOf = (path: string) => pathToFileURL(path).href.replace('file:', 'sqlite:')
const noMount = mayMount ? undefined : 'this user may not mount file systems'
const unavailable = { code: 'BACKEND_UNAVAILABLE', retryable: true }
const full = { ...unavailable, message: expect.stringMatching(/is full\. Free some space|The disk reported an error/) }
const readOnly = { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining('It is read-only for this process') }

const clients: Record<string, (path: string) => SqliteClient & { close(): void }> = {
  'a Database of libsql': (path) => new Database(path),
  'a client of @libsql/client': (path) => createClient({ url: `file:${path}` }),
}

describeWithRight(noMount, 'a full disk', () => {
  test.each(Object.entries(clients))(
    'with %s, writes fail and change nothing, reads continue, and the store recovers when there is space',
    async (_, open) => {
      const disk = smallDisk()
      const path = join(disk.directory, 'leases.db')
      const client = open(path)
      onTestFinished(() => client.close())
      const store = sqliteStore({ client })
      const { record } = granted(await store.acquire(claimOf(), call))
      disk.fill()
      await expect(store.renew(held(record), call)).rejects.toMatchObject(full)
      await expect(store.acquire(claimOf({ election: 'mail' }), call)).rejects.toMatchObject(full)
      await expect(store.release(held(record), call)).rejects.toMatchObject(full)
      for (const reader of [store, openAt(path)]) {
        expect(await reader.read('jobs', call)).toEqual(record)
        expect(await reader.read('mail', call)).toBeUndefined()
      }
      disk.free()
      expect(granted(await store.renew(held(record), call)).record.term).toBe(1)
      expect(granted(await store.acquire(claimOf({ election: 'mail' }), call)).record.term).toBe(1)
    },
  )

  test('a disk that is full before the first claim grants nothing', async () => {
    const disk = smallDisk()
    disk.fill()
    const path = join(disk.directory, 'leases.db')
    const store = await openStore(urlOf(path))
    onTestFinished(() => store.close?.())
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(unavailable)
    disk.free()
    expect(granted(await store.acquire(claimOf(), call)).record.term).toBe(1)
  })
})

/** Tests of a process that this Node.js runs, as the user of the tests. */
function separateProcess(runtime: () => string): void {
  const startAt = async (path: string) => {
    const started = await User.start(0, 0, runtime())
    await started.do('openUrl', urlOf(path))
    return started
  }

  test('a process on a full disk cannot write, reads on, and recovers when there is space', async () => {
    const disk = smallDisk()
    const process = await startAt(join(disk.directory, 'leases.db'))
    const { record } = await process.do<Granted>('acquire', 'ada')
    disk.fill()
    const { message } = full
    await expect(process.do('renew', held(record))).rejects.toMatchObject({ code: unavailable.code, message })
    await expect(process.do('release', held(record))).rejects.toMatchObject({ code: unavailable.code, message })
    expect(await process.do('read', 'jobs')).toEqual(record)
    disk.free()
    expect(await process.do('renew', held(record))).toMatchObject({ ok: true, record: { term: 1 } })
  })

  test('a process that sees the file on a read-only mount reads records and cannot write', async (context) => {
    const path = await newPath()
    const store = openAt(path)
    const { record } = granted(await store.acquire(claimOf({ leaseDurationMs: 60_000 }), call))
    const process = await startAt(join(await mountReadOnly(context, dirname(path)), 'leases.db'))
    expect(await process.do<LeaseRecord>('read', 'jobs')).toEqual(record)
    await expect(process.do('renew', held(record))).rejects.toMatchObject(readOnly)
    await expect(process.do('release', held(record))).rejects.toMatchObject(readOnly)
    expect(await store.read('jobs', call)).toEqual(record)
    const renewed = granted(await store.renew(held(record), call)).record
    expect(await process.do<LeaseRecord>('read', 'jobs')).toEqual(renewed)
  })
}

describeWithRight(noMount ?? noOtherUsers, 'a full or read-only disk, in a separate process', () => {
  describe('in the Node.js of the tests', () => separateProcess(() => process.execPath))
  describeWithPrograms([programs.node24], 'with the SQLite of Node.js 24', () =>
    separateProcess(() => pathOf(programs.node24)),
  )
})

describe('a file system that hosts may share', () => {
  const refusal = { code: 'UNSUPPORTED_FILESYSTEM', retryable: false, message: expect.stringContaining('is on FUSE') }

  test('a store by URL is refused there before it creates a file', async (context) => {
    const path = await newPath()
    mountFuse(context, dirname(path))
    const store = await openStore(urlOf(path))
    onTestFinished(() => store.close?.())
    await expect(store.acquire(claimOf(), call)).rejects.toMatchObject(refusal)
    await expect(store.read('jobs', call)).rejects.toMatchObject(refusal)
    expect(existsSync(path)).toBe(false)
  })

  test('a client with a file there is refused, unless it is allowed', async (context) => {
    const path = await newPath()
    granted(await openAt(path).acquire(claimOf(), call))
    const client = connect(path)
    client.prepare('SELECT count(*) FROM tenure_leases').all()
    // The client keeps its files open under the new mount, which no process serves.
    mountFuse(context, dirname(path))
    for (const doing of [
      sqliteStore({ client }).read('jobs', call),
      sqliteStore({ client }).acquire(claimOf({ election: 'mail' }), call),
    ]) {
      await expect(doing).rejects.toMatchObject(refusal)
    }
    const allowed = sqliteStore({ client, allowNetworkFilesystem: true })
    await expect(allowed.read('jobs', call)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(client.prepare('SELECT election FROM tenure_leases').all()).toEqual([{ election: 'jobs' }])
  })
})
