import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../../src/common/clock.ts'
import type { AcquireClaim, CallOptions, Granted, LeaseRecord, LeaseStore } from '../../../src/engine/lease-store.ts'
import {
  decodeLease,
  decodeTermRecord,
  encodeLease,
  encodeTermRecord,
  type StoredLease,
  type FileTermRecord,
} from '../../../src/stores/file/file-format.ts'
import { fileStore, type FileStoreOptions } from '../../../src/stores/file/index.ts'

/** A time limit that no call should reach. */
export function call(signal: AbortSignal = AbortSignal.timeout(20_000)): CallOptions {
  return { signal }
}

/** A directory that is removed after the test. */
export async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'tenure-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** A store that is closed after the test. */
export function openStore(options: FileStoreOptions): Required<LeaseStore> {
  const store = fileStore(options) as Required<LeaseStore>
  onTestFinished(() => store.close())
  return store
}

/** A claim of an attempt never seen before. */
export function claim(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const attempt = systemClock.randomId()
  return { election: 'jobs', holder: 'ada', attempt, leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...change }
}

/** Acquires a lease, and throws if it is refused. */
export async function grant(store: LeaseStore, change: Partial<AcquireClaim> = {}): Promise<Granted> {
  const outcome = await store.acquire(claim(change), call())
  if (!outcome.ok) throw new Error(`The claim was refused: ${JSON.stringify(outcome)}`)
  return outcome
}

/** Waits until a record's lease has expired on the machine's clock. */
export async function untilExpired({ leaseDurationMs }: LeaseRecord): Promise<void> {
  await new Promise<void>((resolve) => systemClock.setTimer(leaseDurationMs, resolve))
}

/** The files of the election "jobs", read and written without the store. */
export function files(directory: string) {
  const lease = join(directory, 'jobs.json')
  const termRecord = `${lease}.term`
  return {
    lease,
    termRecord,
    lock: `${lease}.lock`,
    readLease: async () => decodeLease(lease, 'jobs', await readFile(lease, 'utf8')),
    writeLease: async (stored: StoredLease) => writeFile(lease, encodeLease(stored)),
    readTermRecord: async () => decodeTermRecord(termRecord, 'jobs', await readFile(termRecord, 'utf8')),
    writeTermRecord: async (stored: FileTermRecord) => writeFile(termRecord, encodeTermRecord(stored)),
    list: async () => (await readdir(directory)).sort(),
  }
}
