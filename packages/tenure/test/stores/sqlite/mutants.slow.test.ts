import { equal, ok } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import Database from 'libsql'
import { describe, expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseRecord, Outcome } from '../../../src/engine/lease-store.ts'
import * as stores from '../../../src/stores/sqlite/index.ts'
import { call, claimOf, newPath, short } from './fixtures.ts'
import { sqliteMutations } from './mutants.ts'

type Library = typeof stores

function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok)
  return outcome.record
}

/** A store of the library on a file, with its connection and one for the check. */
async function openIn({ sqliteStore }: Library) {
  const path = await newPath()
  const client = new Database(path)
  return { path, client, store: sqliteStore({ client }), admin: new Database(path) }
}

/** Checks that supplement the conformance suite. */
const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'a term that was recorded after the candidate looked is not granted again'(library) {
    const { store, admin } = await openIn(library)
    const record = granted(await store.acquire(claimOf(), call))
    await store.release(held(record), call)
    admin.exec('UPDATE tenure_leases_terms SET term = 7')
    equal((await store.acquire(claimOf({ afterTerm: 1 }), call)).ok, false)
  },

  async 'nothing is granted when commits do not wait for the disk'(library) {
    const { store, client, admin } = await openIn(library)
    client.exec('PRAGMA synchronous = NORMAL')
    await store.acquire(claimOf(), call).catch(() => {})
    equal(admin.prepare('SELECT election FROM tenure_leases').all().length, 0)
  },

  async 'a leader whose file was deleted cannot renew'(library) {
    const { store, path } = await openIn(library)
    const record = granted(await store.acquire(claimOf(), call))
    for (const ending of ['', '-wal', '-shm']) rmSync(path + ending)
    const [{ status }] = await Promise.allSettled([store.renew(held(record), call)])
    equal(status, 'rejected')
  },

  async 'a leader whose write-ahead log was deleted cannot renew'(library) {
    const { store, path } = await openIn(library)
    const record = granted(await store.acquire(claimOf(), call))
    rmSync(`${path}-wal`)
    const [{ status }] = await Promise.allSettled([store.renew(held(record), call)])
    equal(status, 'rejected')
  },

  async 'a transaction of other code is neither joined nor ended'(library) {
    const { store, client } = await openIn(library)
    granted(await store.acquire(claimOf({ election: 'other' }), call))
    client.exec('BEGIN')
    const outcome = await store.acquire(claimOf(), short).catch(() => undefined)
    equal(client.inTransaction, true)
    equal(outcome, undefined)
  },

  async 'a call that waits for the lock leaves the process running'(library) {
    const { store, client, admin } = await openIn(library)
    const record = granted(await store.acquire(claimOf(), call))
    client.exec('PRAGMA busy_timeout = 300')
    admin.exec('BEGIN IMMEDIATE')
    let longestMs = 0
    let lastMs = performance.now()
    const ticking = setInterval(() => {
      longestMs = Math.max(longestMs, performance.now() - lastMs)
      lastMs = performance.now()
    }, 1)
    await store.renew(held(record), short).catch(() => {})
    clearInterval(ticking)
    longestMs = Math.max(longestMs, performance.now() - lastMs)
    admin.exec('ROLLBACK')
    ok(longestMs < 250)
  },

  async 'a claim that was abandoned before it took the lock is never carried out'(library) {
    const { store, admin } = await openIn(library)
    granted(await store.acquire(claimOf({ election: 'other' }), call))
    admin.exec('BEGIN IMMEDIATE')
    const abort = new AbortController()
    const claim = store.acquire(claimOf(), { signal: abort.signal, timeoutMs: 60 }).catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, 10))
    abort.abort(new Error('abandoned'))
    admin.exec('ROLLBACK')
    await claim
    await new Promise((resolve) => setTimeout(resolve, 100))
    equal(await store.read('jobs', call), undefined)
  },

  async 'two candidates do not both lead in memory'({ sqliteStore }) {
    const [one, two] = await Promise.all(
      [1, 2].map(() =>
        sqliteStore({ client: new Database(':memory:') })
          .acquire(claimOf(), call)
          .catch(() => undefined),
      ),
    )
    equal(one !== undefined && two !== undefined, false)
  },
}

/** Runs the conformance case of this name, or the check. */
function caseOf(name: string, library: Library): () => Promise<void> {
  const check = checks[name]
  if (check) return () => check(library)
  const cases = storeConformance(
    async () => {
      const { path, store, client, admin } = await openIn(library)
      const opened = [client, admin]
      return {
        store,
        open() {
          const another = new Database(path)
          opened.push(another)
          return library.sqliteStore({ client: another })
        },
        remove: (election) => void admin.prepare('DELETE FROM tenure_leases WHERE election = ?').run(election),
        close: () => opened.forEach((database) => database.close()),
      }
    },
    { leaseDurationMs: 500, patienceMs: 20_000 },
  )
  const found = cases.find((one) => one.name === name)
  if (!found) throw new Error(`There is no check "${name}".`)
  return () => found.run()
}

describe('checks that the SQLite store passes and its mutants fail', () => {
  const names = new Set([...Object.keys(checks), ...sqliteMutations.map(({ caughtBy }) => caughtBy)])
  test.each([...names])('the SQLite store passes: %s', async (name) => {
    expect(await passes(caseOf(name, stores))).toBe(true)
  })

  test.each(sqliteMutations)('a check finds this mutant: $name', async (mutation) => {
    const { sqlite } = await loadMutant<{ sqlite: Library }>(mutation, { sqlite: 'stores/sqlite/index.ts' })
    expect(await passes(caseOf(mutation.caughtBy, sqlite))).toBe(false)
  })
})
