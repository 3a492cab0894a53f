import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readFile, rename, rm, rmdir, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { sharedFilesystem } from '@tenure/internal/filesystem'
import { describe, expect, test, vi } from 'vitest'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import { decodeLease, decodeTermRecord, encodeLease, encodeTermRecord } from '../../../src/stores/file/file-format.ts'
import { manualClock } from '../../../../testing/test/conformance/manual-clock.ts'
import { call, claim, files, grant, openStore, temporaryDirectory } from './fixtures.ts'

async function heldLease() {
  const directory = await temporaryDirectory()
  const clock = manualClock()
  const store = openStore({ directory, clock })
  const { record } = await grant(store)
  return { directory, clock, store, record, on: files(directory) }
}

/** Asserts that every call fails with this error and leaves the files unchanged. */
async function expectNobodyLeads(store: LeaseStore, path: string, message: string): Promise<void> {
  const before = await readFile(path, 'utf8')
  const held = { ...claim(), term: 1, version: '1.1' }
  const calls = [
    () => store.acquire(claim({ afterTerm: 1 }), call()),
    () => store.acquire(claim({ afterTerm: 1, expiredVersion: '1.1' }), call()),
    () => store.renew(held, call()),
    () => store.release(held, call()),
  ]
  for (const attempt of calls) {
    const error = await attempt().catch((error: unknown) => error)
    expect(error).toMatchObject({ name: 'TenureError', code: 'RECORD_INVALID', retryable: false })
    expect(String(error)).toContain(path)
    expect(String(error)).toContain(message)
  }
  expect(await readFile(path, 'utf8')).toBe(before)
}

describe('a damaged lease file', () => {
  test.each([
    ['no text', '', 'it is not JSON'],
    ['garbage', '\0\0\0\0', 'it is not JSON'],
    ['JSON that is not an object', '[]', 'it is not a JSON object'],
    ['a newer format', '{"format":2,"holder":"ada"}', 'its format is 2'],
    [
      'a record of another program, as in document 000',
      '{"holder":"ada","renewTime":"2020-01-01T00:00:00Z","leaseDuration":"10s"}',
      'it was written by another program',
    ],
  ])('nobody is elected when the lease file contains %s', async (_, text, message) => {
    const { clock, store, on } = await heldLease()
    await writeFile(on.lease, text)
    clock.pass(60_000)
    await expectNobodyLeads(store, on.lease, message)
    await expect(store.read('jobs', call())).rejects.toMatchObject({ code: 'RECORD_INVALID' })
  })

  test('nobody is elected when the lease file is truncated', async () => {
    const { clock, store, on } = await heldLease()
    await truncate(on.lease, 200)
    clock.pass(60_000)
    await expectNobodyLeads(store, on.lease, 'it is not JSON')
  })

  test('nobody is elected when the lease file was edited', async () => {
    const { clock, store, on } = await heldLease()
    const text = await readFile(on.lease, 'utf8')
    await writeFile(on.lease, text.replace('"term": 1', '"term": 9007199254740993'))
    clock.pass(60_000)
    await expectNobodyLeads(store, on.lease, 'its checksum does not match')
  })

  test('nobody is elected when the file with the highest term is damaged', async () => {
    const { clock, store, on } = await heldLease()
    await writeFile(
      on.termRecord,
      (await readFile(on.termRecord, 'utf8')).replace('"highestTerm": 1', '"highestTerm": 0'),
    )
    clock.pass(60_000)
    await expectNobodyLeads(store, on.termRecord, 'its checksum does not match')
    await rm(on.lease)
    await expectNobodyLeads(store, on.termRecord, 'its checksum does not match')
  })

  test('a term that is too large to be exact is rejected, even with a matching checksum', async () => {
    const { on, store } = await heldLease()
    const stored = await on.readLease()
    await on.writeLease({ ...stored, record: { ...stored.record, term: 2 ** 53 } })
    await expectNobodyLeads(store, on.lease, '"term" is 9007199254740992')
  })

  test('every flipped bit and every truncation is detected', async () => {
    const { on } = await heldLease()
    const lease = await on.readLease()
    const termRecord = await on.readTermRecord()
    for (const [bytes, decode, original] of [
      [Buffer.from(encodeLease(lease)), decodeLease, lease],
      [Buffer.from(encodeTermRecord(termRecord)), decodeTermRecord, termRecord],
    ] as const) {
      let refused = 0
      const damaged = Array.from({ length: bytes.length * 8 }, (_, bit) => {
        const copy = Buffer.from(bytes)
        copy.writeUInt8(copy.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
        return copy
      })
      const cut = Array.from(bytes, (_, length) => bytes.subarray(0, length))
      for (const copy of [...damaged, ...cut]) {
        try {
          expect(decode('lease', 'jobs', copy.toString())).toEqual(original)
        } catch (error) {
          expect(error).toMatchObject({ code: 'RECORD_INVALID' })
          refused++
        }
      }
      expect(refused).toBeGreaterThan(bytes.length * 7)
    }
  })
})

describe('terms after lost files', () => {
  test('terms continue after the record was deleted, once its lease would have expired', async () => {
    const { clock, store, record, on } = await heldLease()
    clock.pass(10_000)
    await store.renew(record, call())
    await rm(on.lease)
    clock.pass(14_999)
    const early = await store.acquire(claim({ afterTerm: 1 }), call())
    expect(early).toEqual({ ok: false, highestTerm: 1, retryAfterMs: 1 })
    clock.pass(1)
    const next = await grant(store, { afterTerm: 1 })
    expect(next.record).toMatchObject({ term: 2, checkpoint: '' })
    expect(next.record.version).not.toBe(record.version)
  })

  test('terms continue when the file with the highest term is deleted', async () => {
    const { clock, store, record, on } = await heldLease()
    await rm(on.termRecord)
    expect(await store.renew(record, call())).toMatchObject({ ok: true })
    expect((await on.readTermRecord()).highestTerm).toBe(1)
    clock.pass(15_000)
    await rm(on.termRecord)
    expect((await grant(store, { afterTerm: 1 })).record.term).toBe(2)
  })

  test('terms continue when a process died between writing the highest term and the record', async () => {
    const { clock, store, on } = await heldLease()
    await on.writeTermRecord({ ...(await on.readTermRecord()), highestTerm: 2 })
    clock.pass(15_000)
    const outcome = await store.acquire(claim({ afterTerm: 1 }), call())
    expect(outcome).toMatchObject({ ok: false, highestTerm: 2, retryAfterMs: 0 })
    expect((await grant(store, { afterTerm: 2 })).record.term).toBe(3)
  })

  test('terms continue when the highest term was written but the record could not be', async () => {
    const directory = await temporaryDirectory()
    const clock = manualClock()
    const store = openStore({ directory, clock })
    const on = files(directory)
    await mkdir(`${on.lease}.tmp`)
    const failed = { code: 'BACKEND_UNAVAILABLE', cause: expect.objectContaining({ code: 'EISDIR' }) }
    await expect(store.acquire(claim(), call())).rejects.toMatchObject(failed)
    expect((await on.readTermRecord()).highestTerm).toBe(1)
    expect(await store.read('jobs', call())).toBeUndefined()
    await rmdir(`${on.lease}.tmp`)
    const refusal = { ok: false, highestTerm: 1, retryAfterMs: 15_000 }
    expect(await store.acquire(claim(), call())).toEqual(refusal)
    clock.pass(15_000)
    expect((await grant(store, { afterTerm: 1 })).record.term).toBe(2)
    const sockets = (await on.list()).filter((name) => name.endsWith('.sock'))
    expect(sockets).toEqual([(await on.readLease()).signOfLife?.path])
  })

  test('a late renewal keeps the highest term of a process that died before it wrote its record', async () => {
    const { store, record, on } = await heldLease()
    await on.writeTermRecord({ ...(await on.readTermRecord()), highestTerm: 2 })
    expect(await store.renew(record, call())).toMatchObject({ ok: true })
    expect((await on.readTermRecord()).highestTerm).toBe(2)
  })

  test('terms continue after a whole lease duration when a deleted record was written on another clock', async () => {
    const { store, on } = await heldLease()
    const termRecord = await on.readTermRecord()
    await on.writeTermRecord({
      ...termRecord,
      clock: termRecord.clock && { ...termRecord.clock, boot: 'an earlier one' },
    })
    await rm(on.lease)
    const refusal = { ok: false, highestTerm: 1, retryAfterMs: 15_000 }
    expect(await store.acquire(claim(), call())).toEqual(refusal)
    expect(await store.acquire(claim({ afterTerm: 1 }), call())).toEqual(refusal)
    expect((await grant(store, { afterTerm: 1, expiredVersion: '' })).record.term).toBe(2)
  })

  test('acquire rejects with TERM_EXHAUSTED after the largest safe integer', async () => {
    const { clock, store } = await heldLease()
    clock.pass(15_000)
    await expect(store.acquire(claim({ afterTerm: Number.MAX_SAFE_INTEGER }), call())).rejects.toMatchObject({
      code: 'TERM_EXHAUSTED',
    })
  })
})

describe('a timestamp that cannot be compared', () => {
  test.each([
    ['from an earlier boot of the machine', { boot: 'an earlier one' }],
    ['from another machine', { machine: 'another one' }],
    ['from another time namespace', { timeNamespace: 'time:[1]' }],
    ['ahead of this clock', { ms: 1e12 }],
  ])('candidates must observe the lease themselves when its timestamp is %s', async (_, change) => {
    const { clock, store, record, on } = await heldLease()
    const stored = await on.readLease()
    await on.writeLease({ ...stored, clock: stored.clock && { ...stored.clock, ...change } })
    clock.pass(60_000)
    expect(await store.acquire(claim({ afterTerm: 1 }), call())).toEqual({ ok: false, record, highestTerm: 1 })
    expect(await store.acquire(claim({ afterTerm: 1, expiredVersion: '1.0' }), call())).toMatchObject({ ok: false })
    const taken = await grant(store, { afterTerm: 1, expiredVersion: record.version })
    expect(taken.record.term).toBe(2)
  })
})

describe('a disk that fails', () => {
  test.skipIf(process.platform !== 'linux')('acquire fails when the directory cannot be created', async () => {
    const store = openStore({ directory: '/proc/nowhere/leases' })
    await expect(store.acquire(claim(), call())).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      cause: expect.objectContaining({ code: 'ENOENT' }),
    })
  })

  test('calls fail while the directory is gone, and succeed when it is back', async () => {
    const { directory, store, record } = await heldLease()
    await rename(directory, `${directory}.gone`)
    const gone = { code: 'BACKEND_UNAVAILABLE', cause: expect.objectContaining({ code: 'ENOENT' }) }
    await expect(store.renew(record, call())).rejects.toMatchObject(gone)
    await expect(store.acquire(claim({ afterTerm: 1 }), call())).rejects.toMatchObject(gone)
    await rename(`${directory}.gone`, directory)
    expect(await store.renew(record, call())).toMatchObject({ ok: true })

    const blocked = openStore({ directory: join(directory, 'jobs.json', 'deeper') })
    const error = { code: 'BACKEND_UNAVAILABLE', cause: expect.objectContaining({ code: 'ENOTDIR' }) }
    await expect(blocked.acquire(claim(), call())).rejects.toMatchObject(error)
  })
})

describe('file systems that hosts may share', () => {
  test('sharedFilesystem recognizes shared file systems by their type', () => {
    // The values are from linux/magic.h. A 32-bit system returns the CIFS value as a negative number.
    expect(
      [0x6969, 0xff534d42, 0xff534d42 | 0, 0x65735546, 0x01021997, 0x5346414f, 0x00c36400].map(sharedFilesystem),
    ).toEqual(['NFS', 'CIFS', 'CIFS', 'FUSE', '9p', 'AFS', 'Ceph'])
    const local = { ext4: 0xef53, tmpfs: 0x01021994, xfs: 0x58465342, btrfs: 0x9123683e, overlay: 0x794c7630 }
    expect(Object.values(local).map(sharedFilesystem)).toEqual(Object.values(local).map(() => undefined))
  })
})

test('acquire reports what to install when the lock package is missing, and read still works', async () => {
  const directory = await temporaryDirectory()
  const dist = fileURLToPath(new URL('../../../dist', import.meta.url))
  await cp(dist, join(directory, 'dist'), { recursive: true })
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  const program = `
    import { fileStore } from ${JSON.stringify(pathToFileURL(join(directory, 'dist/stores/file/index.js')).href)}
    const store = fileStore({ directory: ${JSON.stringify(join(directory, 'leases'))} })
    const claim = ${JSON.stringify(claim())}
    const signal = AbortSignal.timeout(5000)
    const error = await store.acquire(claim, { signal }).catch((error) => error)
    console.log(JSON.stringify([error.code, error.message, await store.read('jobs', { signal }) ?? null]))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const output = (await child.stdout.toArray()).join('')
  const [code, message, record] = JSON.parse(output)
  expect(code).toBe('LOCK_UNAVAILABLE')
  expect(message).toContain('npm install fs-native-extensions')
  expect(record).toBeNull()
})

describe('the file lock', () => {
  const lockModule = 'fs-native-extensions'
  const holdLock = async (path: string) => {
    const { open } = await import('node:fs/promises')
    const { default: lock } = (await import(lockModule)) as { default: { tryLock(fd: number): boolean } }
    const handle = await open(path, 'a+')
    // An attempt that was abandoned may still hold the lock for a moment.
    await vi.waitFor(() => expect(lock.tryLock(handle.fd)).toBe(true))
    return handle
  }

  test('a call waits for a lock that another process holds, and leaves no lock when it gives up', async () => {
    const { store: _, directory, record, on } = await heldLease()
    const store = openStore({ directory })
    const handle = await holdLock(on.lock)
    const controller = new AbortController()
    const renewal = store.renew(record, call(controller.signal))
    const release = store.release(record, call(AbortSignal.timeout(50)))
    await expect(release).rejects.toMatchObject({ name: 'TimeoutError' })
    controller.abort(new Error('enough'))
    await expect(renewal).rejects.toThrow('enough')
    await handle.close()
    const other = await holdLock(on.lock)
    await other.close()
    expect((await on.readLease()).record).toEqual(record)
  })

  test('a lock on a replaced file does not count as the lock on the new file', async () => {
    const { directory, on } = await heldLease()
    const store = openStore({ directory })
    const handle = await holdLock(on.lock)
    const before = (await stat(on.lock)).ino
    const waiting = store.release((await on.readLease()).record, call())
    await rename(on.lock, join(directory, 'moved away'))
    // The old file is still locked. The call succeeds only if it opens the path again.
    expect(await waiting).toMatchObject({ ok: true })
    expect((await stat(on.lock)).ino).not.toBe(before)
    await handle.close()
  })
})

test('a renewal replaces the temporary files of a killed writer', async () => {
  const { store, record, on } = await heldLease()
  await writeFile(`${on.lease}.tmp`, '{"form')
  await writeFile(`${on.termRecord}.tmp`, '{')
  expect(await store.renew(record, call())).toMatchObject({ ok: true })
  expect((await on.list()).filter((name) => name.endsWith('.tmp'))).toEqual([])
})

test('a process that uses the store and its watch can exit on its own', async () => {
  const directory = await temporaryDirectory()
  const program = `
    import { fileStore } from 'tenure/stores/file'
    const store = fileStore({ directory: ${JSON.stringify(directory)} })
    const signal = new AbortController().signal
    const states = store.watch('jobs', { signal })[Symbol.asyncIterator]()
    await states.next()
    await store.acquire(${JSON.stringify(claim())}, { signal })
    await states.next()
    void states.next()`
  const cwd = fileURLToPath(new URL('../../..', import.meta.url))
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd, stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  expect(code).toBe(0)
  expect(await files(directory).list()).toEqual(['jobs.json', 'jobs.json.lock', 'jobs.json.term'])
})
