import { execFileSync } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { call, claim, files, grant, openStore, temporaryDirectory } from './fixtures.ts'
import { mount, mountFuse } from './mount-filesystem.ts'

describe('fileStore on a failing disk', () => {
  test('a full disk fails writes, still serves reads, and recovers once space is freed', async (context) => {
    const directory = await mount(context, 'tmpfs', 'size=64k')
    const store = openStore({ directory })
    const { record } = await grant(store)
    const filler = join(directory, 'filler')
    await expect(writeFile(filler, Buffer.alloc(128 * 1024))).rejects.toMatchObject({ code: 'ENOSPC' })

    const full = { code: 'BACKEND_UNAVAILABLE', retryable: true, cause: expect.objectContaining({ code: 'ENOSPC' }) }
    await expect(store.renew(record, call())).rejects.toMatchObject(full)
    await expect(store.renew(record, call())).rejects.toThrow(
      `cannot use "${directory}": ENOSPC: no space left on device, write. Free some`,
    )
    await expect(store.acquire(claim({ election: 'mail' }), call())).rejects.toMatchObject(full)
    expect(await store.read('jobs', call())).toEqual(record)
    expect(await store.read('mail', call())).toBeUndefined()

    await rm(filler)
    expect(await store.renew(record, call())).toMatchObject({ ok: true, record: { term: 1 } })
    expect((await grant(store, { election: 'mail' })).record.term).toBe(1)
    expect((await files(directory).list()).filter((name) => name.endsWith('.tmp'))).toEqual([])
  })

  test('a read-only disk fails writes and still serves reads', async (context) => {
    const directory = await mount(context, 'tmpfs', 'size=1m')
    const store = openStore({ directory })
    const { record } = await grant(store)
    execFileSync('mount', ['-o', 'remount,ro', directory])
    const readOnly = { code: 'BACKEND_UNAVAILABLE', retryable: true, cause: expect.objectContaining({ code: 'EROFS' }) }
    const other = openStore({ directory })
    for (const one of [store, other]) {
      await expect(one.renew(record, call())).rejects.toMatchObject(readOnly)
      await expect(one.acquire(claim({ election: 'mail' }), call())).rejects.toMatchObject(readOnly)
      await expect(one.acquire(claim({ election: 'mail' }), call())).rejects.toThrow(/mounted read-only/)
      expect(await one.read('jobs', call())).toEqual(record)
    }
    execFileSync('mount', ['-o', 'remount,rw', directory])
    expect(await store.renew(record, call())).toMatchObject({ ok: true })
  })
})

describe('fileStore on a file system that hosts may share', () => {
  test('a shared file system is refused before anything is written, unless it is allowed', async (context) => {
    const directory = await temporaryDirectory()
    mountFuse(context, directory)
    const error = await openStore({ directory })
      .acquire(claim(), call())
      .catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'UNSUPPORTED_FILESYSTEM', retryable: false })
    expect(String(error)).toContain(`"${directory}" is on FUSE`)

    const allowed = openStore({ directory, allowNetworkFilesystem: true })
    await expect(allowed.acquire(claim(), call())).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })
})
