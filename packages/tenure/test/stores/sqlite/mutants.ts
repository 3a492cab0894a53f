import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the SQLite store, and the check that must catch it. */
export interface SqliteMutation extends Mutation {
  /** A case of the conformance suite, or a check in mutants.slow.test.ts. */
  readonly caughtBy: string
}

const client = 'stores/sqlite/client.ts'
const database = 'stores/sqlite/database.ts'
const index = 'stores/sqlite/index.ts'
const statements = 'stores/sqlite/statements.ts'

/** A real SQLite must reveal every one of these. */
export const sqliteMutations: readonly SqliteMutation[] = [
  {
    name: 'a row is overwritten without comparing its version',
    file: statements,
    find: 'AND ${isSeen} AND coalesce((SELECT term',
    replace: 'AND (${isSeen} OR true) AND coalesce((SELECT term',
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a renewal keeps the version',
    file: index,
    find: 'const version = this.#clock.randomId()',
    replace: 'const version = over.record?.version ?? this.#clock.randomId()',
    caughtBy: 'a renewal keeps the grant and creates a new version',
  },
  {
    name: 'the highest term is lost with the record',
    file: index,
    find: 'const kept = this.#keptOf(election, row)',
    replace: 'const kept = record && this.#keptOf(election, row)',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a grant does not record its term',
    file: index,
    find: '...(isKept ? [] :',
    replace: '...(isKept || true ? [] :',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a grant is not compared with the highest term',
    file: statements,
    find: ' AND coalesce((SELECT term FROM ${terms} WHERE election = ?), 0) <= ?',
    replace: ' AND coalesce((SELECT term FROM ${terms} WHERE election = ?), 0) <= ? + 1e15',
    caughtBy: 'a term that was recorded after the candidate looked is not granted again',
  },
  {
    name: 'synchronous = NORMAL is accepted',
    file: statements,
    find: 'FROM pragma_synchronous) >= 2',
    replace: 'FROM pragma_synchronous) >= 1',
    caughtBy: 'nothing is granted when commits do not wait for the disk',
  },
  {
    name: 'a deleted file is not detected',
    file: database,
    find: 'file?.check()',
    replace: 'file?.path',
    caughtBy: 'a leader whose file was deleted cannot renew',
  },
  {
    name: 'a deleted write-ahead log is not detected',
    file: 'stores/sqlite/database-file.ts',
    find: 'return [path, `${path}-wal`, `${path}-shm`].map(fileAt)',
    replace: 'return [path].map(fileAt)',
    caughtBy: 'a leader whose write-ahead log was deleted cannot renew',
  },
  {
    name: 'a transaction of other code is joined',
    file: client,
    find: "this.#database.exec(mode === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN')",
    replace: "try { this.#database.exec(mode === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN') } catch {}",
    caughtBy: 'a transaction of other code is neither joined nor ended',
  },
  {
    name: 'the client waits for the lock and blocks the process',
    file: client,
    find: "this.#database.exec('PRAGMA busy_timeout = 0')",
    replace: "this.#database.exec('PRAGMA busy_timeout')",
    caughtBy: 'a call that waits for the lock leaves the process running',
  },
  {
    name: 'an abandoned call is carried out later',
    file: database,
    find: 'if (bound.ended) throw bound.reason',
    replace: '',
    also: [
      {
        file: database,
        find: `await bound.race(this.#pause(pauseMs)).catch((error: unknown) => {
          throw this.#late(error, blocked, call)
        })`,
        replace: 'await this.#pause(pauseMs)',
      },
    ],
    caughtBy: 'a claim that was abandoned before it took the lock is never carried out',
  },
  {
    name: 'a database in memory is accepted',
    file: database,
    find: "if (typeof path === 'string' && path !== '') return path",
    replace: "if (typeof path === 'string') return path || '/'",
    also: [
      { file: 'stores/sqlite/database-file.ts', find: 'if (!areOpenHere(file.#identity))', replace: 'if (false)' },
      { file: statements, find: "isRemote ? 'true' : isDurable", replace: "isRemote || isDurable ? 'true' : ''" },
    ],
    caughtBy: 'two candidates do not both lead in memory',
  },
]
