import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the PostgreSQL store, and the check that must notice it. */
export interface PostgresMutation extends Mutation {
  /** A case of the conformance suite, or a check of postgres-mutants.test.ts. */
  readonly caughtBy: string
}

/** A fault that shows when a commit waits for a standby, and what becomes of that wait. */
export interface PostgresFailoverMutation extends Mutation {
  readonly by: 'cancelled' | 'released' | 'late'
}

const statements = 'stores/postgres/statements.ts'

/** As if the sequence alone made a version. */
const counted = [
  { file: 'stores/postgres/version.ts', find: 'record.slice(-14, -2)', replace: "record && ''" },
  { file: statements, find: ' and ${uniquePart} = :unique', replace: '' },
] as const

/** Every one of them must be noticed on a real PostgreSQL. */
export const postgresMutations: readonly PostgresMutation[] = [
  {
    name: 'a row is written whatever its version',
    file: statements,
    find: ' and version = cast(:version as bigint) and ${uniquePart} = :unique',
    replace: '',
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a version is kept by a renewal',
    file: statements,
    find: 'record = :record, version = ${version}, ends_at',
    replace: 'record = :record, version = lease.version, ends_at',
    also: counted,
    caughtBy: 'a renewal keeps the grant and creates a new version',
  },
  {
    name: 'a first record takes the place of any other',
    file: statements,
    find: 'on conflict (election) do nothing returning ${written}`',
    replace:
      'on conflict (election) do update set record = excluded.record, version = excluded.version returning ${written}`',
    also: [
      {
        file: statements,
        find: 'on conflict (election) do nothing returning election)',
        replace: 'on conflict (election) do update set term = excluded.term returning election)',
      },
    ],
    caughtBy: 'exactly one of many contenders wins a new election',
  },
  {
    name: 'the highest term goes with the record',
    file: 'stores/postgres.ts',
    find: 'const kept = keptIn(election, row)',
    replace: 'const kept = record && keptIn(election, row)',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a take-over does not look at the term that is kept apart',
    file: statements,
    find: '<= cast(:highestTerm as bigint)',
    replace: '<= cast(:highestTerm as bigint) + 100',
    caughtBy: 'a term that is kept apart is not granted again to who was notified of a lower one',
  },
  {
    name: 'a refusal shows what was guessed',
    file: 'stores/postgres.ts',
    find: 'if (!row) return { ok: false }',
    replace: 'if (!row) return { ok: false, found: over }',
    caughtBy: 'a refusal shows who leads to a candidate that has read nothing',
  },
  {
    name: 'a conflict of two transactions is an error',
    file: 'stores/postgres/failures.ts',
    find: 'return undone.has(stateOf(error))',
    replace: 'return undone.has(stateOf(error).slice(0, 1))',
    caughtBy: 'a conflict of two transactions is a refusal',
  },
  {
    name: 'a grant is taken from a server that does not wait for its disk',
    file: statements,
    find: "`current_setting('synchronous_commit') <> 'off'`",
    replace: "'true'",
    caughtBy: 'nothing is granted where commits are not waited for',
  },
  {
    name: 'versions begin at 1 in new tables',
    file: 'stores/postgres/schema.ts',
    find: 'cast(1 + floor(random() * 4e15) as bigint)',
    replace: "'1'",
    also: counted,
    caughtBy: 'no version comes back when the tables were dropped',
  },
  {
    name: 'a lease is not judged again when it is written',
    file: statements,
    find: "when 'held' then ${endsAt} > clock_timestamp()",
    replace: "when 'held' then true",
    caughtBy: 'the server refuses a late renewal that our own clock would allow',
  },
  {
    name: 'a connection on which a call hangs is used for the next one',
    file: 'stores/postgres/session.ts',
    find: 'wire?.unanswered === 0 && !wire.isOver',
    replace: 'wire?.isOver === false',
    caughtBy: 'a renewal does not wait behind one that hangs',
  },
  {
    name: 'a claim that was given up is sent when the pool has a connection again',
    file: 'stores/postgres/client.ts',
    find: '(late) => late.release(),',
    replace: 'async (late) => { await late.query(text, values); late.release() },',
    caughtBy: 'a claim that waited in vain for a drained pool is never sent',
  },
  {
    name: 'a notification is believed on a channel that anybody can guess',
    file: 'stores/postgres/schema.ts',
    find: "'tenure_' || replace(cast(gen_random_uuid() as text), '-', '')",
    replace: "'tenure_' || repeat('0', 32)",
    caughtBy: 'no two stores of one database share a channel',
  },
  {
    name: 'a table is where the search path of a role finds it',
    file: 'stores/postgres/names.ts',
    find: '`"${schema}"."${name}${suffix}"`',
    replace: '`"${name}${suffix}"`',
    caughtBy: 'roles with different search paths have one leader',
  },
  {
    name: 'a number that the sequence gave twice is one version',
    ...counted[0],
    also: [counted[1]],
    caughtBy: 'a number that the sequence gives again makes another version',
  },
  {
    name: 'a connection on which the client gave up is used for the next call',
    file: 'stores/postgres/failures.ts',
    find: "return state !== '' && !state.startsWith('25')",
    replace: "return state !== 'never'",
    caughtBy: 'a connection on which the client gave up is replaced',
  },
  {
    name: 'a grant in a transaction of somebody else is believed',
    file: 'stores/postgres/standing.ts',
    find: "if (status !== 'T' && status !== 'E') return answer",
    replace: "if (status !== 'never') return answer",
    caughtBy: 'nothing is granted in a transaction that may be rolled back',
  },
  {
    name: 'a statement that a connection does not have prepared is an error',
    file: 'stores/postgres/prepared.ts',
    find: 'if (!isUnprepared(error)) throw error',
    replace: 'if (mayPrepare) throw error',
    caughtBy: 'a renewal needs nothing that a pooler may have taken from its connection',
  },
]

/** Every one of them must be noticed on a PostgreSQL with a standby that it waits for. */
export const postgresFailoverMutations: readonly PostgresFailoverMutation[] = [
  {
    name: 'a commit whose wait for the standby was cancelled is taken for done',
    file: 'stores/postgres/standing.ts',
    find: 'if (cancelled !== undefined) throw',
    replace: "if (cancelled === '') throw",
    by: 'cancelled',
  },
  {
    name: 'a commit that was released from its wait for the standby is taken for done',
    file: 'stores/postgres/standing.ts',
    find: "if (!isSameConfiguration(before, String(seen?.['waited']))) throw",
    replace: "if (before === '') throw",
    by: 'released',
  },
  {
    name: 'the second look at a commit asks only whether a standby is waited for',
    file: '../../internal/src/postgres-waits.ts',
    find: 'return backend === backendNow ? loaded === loadedNow : Number(loadedNow) < Number(began) - signalSeconds',
    replace: "return loaded !== undefined && began !== undefined && after !== '' && backend === backendNow",
    also: [
      {
        file: '../../internal/src/postgres-waits.ts',
        find: 'export const lookAgain = `select ${configuration} as waited`',
        replace: 'export const lookAgain = `select ${waited}`',
      },
    ],
    by: 'late',
  },
  {
    name: 'a record that only the primary has is taken for a grant',
    file: 'stores/postgres.ts',
    find: '!this.#unsettled.has(election)',
    replace: "!this.#unsettled.has('nothing')",
    by: 'cancelled',
  },
]
