import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the PostgreSQL store, and the check that must catch it. */
export interface PostgresMutation extends Mutation {
  /** A case of the conformance suite, or a check in mutants.server.test.ts. */
  readonly caughtBy: string
}

/** A mutant that is revealed when a commit waits for a standby, by how that wait ends. */
export interface PostgresFailoverMutation extends Mutation {
  readonly by: 'cancelled' | 'released' | 'late'
}

const statements = 'stores/postgres/statements.ts'

/** Makes a version contain only the sequence number. */
const counted = [
  { file: 'stores/postgres/version.ts', find: 'record.slice(-14, -2)', replace: "record && ''" },
  { file: statements, find: ' and ${uniquePart} = :unique', replace: '' },
] as const

/** A real PostgreSQL must reveal every one of these. */
export const postgresMutations: readonly PostgresMutation[] = [
  {
    name: 'a row is overwritten without comparing its version',
    file: statements,
    find: ' and version = cast(:version as bigint) and ${uniquePart} = :unique',
    replace: '',
    caughtBy: 'exactly one of many renewals of the same version wins',
  },
  {
    name: 'a renewal keeps the version',
    file: statements,
    find: 'record = :record, version = ${version}, ends_at',
    replace: 'record = :record, version = lease.version, ends_at',
    also: counted,
    caughtBy: 'a renewal keeps the grant and creates a new version',
  },
  {
    name: 'a first record overwrites any existing record',
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
    name: 'the highest term is lost with the record',
    file: 'stores/postgres/index.ts',
    find: 'const kept = keptIn(election, row)',
    replace: 'const kept = record && keptIn(election, row)',
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a takeover ignores the separately stored term',
    file: statements,
    find: '<= cast(:highestTerm as bigint)',
    replace: '<= cast(:highestTerm as bigint) + 100',
    caughtBy: 'a separately stored term is not granted again, even if a notification shows a lower term',
  },
  {
    name: 'a refusal returns the state that the store remembers instead of the current state',
    file: 'stores/postgres/index.ts',
    find: 'if (!row) return { ok: false }',
    replace: 'if (!row) return { ok: false, found: over }',
    caughtBy: 'a refusal returns the leader to a candidate that has read nothing',
  },
  {
    name: 'a serialization conflict is reported as an error',
    file: 'stores/postgres/failures.ts',
    find: 'return undone.has(stateOf(error))',
    replace: 'return undone.has(stateOf(error).slice(0, 1))',
    caughtBy: 'a serialization conflict is a refusal, not an error',
  },
  {
    name: 'a grant is accepted from a server that does not wait for its disk',
    file: statements,
    find: "`current_setting('synchronous_commit') <> 'off'`",
    replace: "'true'",
    caughtBy: 'nothing is granted when commits do not wait for the disk',
  },
  {
    name: 'versions start at 1 in new tables',
    file: 'stores/postgres/schema.ts',
    find: 'cast(1 + floor(random() * 4e15) as bigint)',
    replace: "'1'",
    also: counted,
    caughtBy: 'no version is reused after the tables were dropped',
  },
  {
    name: 'the server does not check expiry again when it writes',
    file: statements,
    find: "when 'held' then ${endsAt} > clock_timestamp()",
    replace: "when 'held' then true",
    caughtBy: "the server refuses a late renewal that the store's own clock would allow",
  },
  {
    name: 'a connection on which a call hangs is reused for the next call',
    file: 'stores/postgres/session.ts',
    find: 'wire?.unanswered === 0 && !wire.isOver',
    replace: 'wire?.isOver === false',
    caughtBy: 'a renewal does not wait behind one that hangs',
  },
  {
    name: 'an abandoned claim is sent when the pool has a connection again',
    file: 'stores/postgres/client.ts',
    find: '(late) => late.release(),',
    replace: 'async (late) => { await late.query(text, values); late.release() },',
    caughtBy: 'a claim that timed out waiting for an exhausted pool is never sent',
  },
  {
    name: 'notifications are accepted on a channel that anyone can guess',
    file: 'stores/postgres/schema.ts',
    find: "'tenure_' || replace(cast(gen_random_uuid() as text), '-', '')",
    replace: "'tenure_' || repeat('0', 32)",
    caughtBy: 'two stores in one database never share a channel',
  },
  {
    name: "the role's search path decides which table is used",
    file: 'stores/postgres/names.ts',
    find: '`"${schema}"."${name}${suffix}"`',
    replace: '`"${name}${suffix}"`',
    caughtBy: 'roles with different search paths share one leader',
  },
  {
    name: 'a repeated sequence number counts as the same version',
    ...counted[0],
    also: [counted[1]],
    caughtBy: 'two versions differ even if their sequence numbers are equal',
  },
  {
    name: 'a connection that the client gave up on is reused for the next call',
    file: 'stores/postgres/failures.ts',
    find: "return state !== '' && !state.startsWith('25')",
    replace: "return state !== 'never'",
    caughtBy: 'a connection that the client gave up on is replaced',
  },
  {
    name: "a grant inside another program's transaction is accepted",
    file: 'stores/postgres/commit-check.ts',
    find: "if (status !== 'T' && status !== 'E') return answer",
    replace: "if (status !== 'never') return answer",
    caughtBy: 'nothing is granted in a transaction that may be rolled back',
  },
  {
    name: 'a statement that is not prepared on a connection fails',
    file: 'stores/postgres/prepared-statements.ts',
    find: 'if (!isUnprepared(error)) throw error',
    replace: 'if (mayPrepare) throw error',
    caughtBy: 'a renewal succeeds after a pooler has discarded the prepared statements',
  },
]

/** A PostgreSQL with a synchronous standby must reveal every one of these. */
export const postgresFailoverMutations: readonly PostgresFailoverMutation[] = [
  {
    name: 'a commit whose wait for the standby was canceled counts as durable',
    file: 'stores/postgres/commit-check.ts',
    find: 'if (cancelled !== undefined) throw',
    replace: "if (cancelled === '') throw",
    by: 'cancelled',
  },
  {
    name: 'a commit that was released from its wait for the standby counts as durable',
    file: 'stores/postgres/commit-check.ts',
    find: "if (!isSameConfiguration(before, String(seen?.['waited']))) throw",
    replace: "if (before === '') throw",
    by: 'released',
  },
  {
    name: 'the commit check only asks whether the server waits for a standby',
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
    name: 'a record that only the primary has counts as a grant',
    file: 'stores/postgres/index.ts',
    find: '!this.#unsettled.has(election)',
    replace: "!this.#unsettled.has('nothing')",
    by: 'cancelled',
  },
]
