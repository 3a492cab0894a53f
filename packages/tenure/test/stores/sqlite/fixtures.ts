import { setMaxListeners } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../../src/common/clock.ts'
import type { AcquireClaim, CallOptions, Granted, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import { sqliteStore, type SqliteStoreOptions } from '../../../src/stores/sqlite/index.ts'

const { signal } = new AbortController()
setMaxListeners(0, signal)

/** A time limit that no call should reach. */
export const call: CallOptions = { signal, timeoutMs: 20_000 }

/** A call that ends soon. */
export const short: CallOptions = { ...call, timeoutMs: 100 }

const temporary: string[] = []
process.once('exit', () => {
  for (const directory of temporary) rmSync(directory, { recursive: true, force: true })
})

/** The path of a database that does not exist yet, in a directory that is removed at the end. */
export async function newPath(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'tenure-sqlite-'))
  temporary.push(directory)
  return join(directory, 'leases.db')
}

/** A connection that is closed after the test. */
export function connect(path: string): Database.Database {
  const database = new Database(path)
  onTestFinished(() => void (database.open && database.close()))
  return database
}

/** A store with its own connection. */
export function openAt(path: string, options: Partial<SqliteStoreOptions> = {}): LeaseStore {
  return sqliteStore({ client: connect(path), ...options })
}

/** A claim of an attempt never seen before. */
export function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const attempt = systemClock.randomId()
  return { election: 'jobs', holder: 'ada', attempt, leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...change }
}

/** The grant in an outcome. Throws if it is a refusal. */
export function granted(outcome: Outcome): Granted {
  if (!outcome.ok) throw new Error(`The claim was refused: ${JSON.stringify(outcome)}`)
  return outcome
}
