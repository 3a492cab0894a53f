import { createHash } from 'node:crypto'
import { isLimited, lockLimit, waited } from '@tenure/internal/postgres-waits'
import type { TableNames } from './names.ts'

/** A statement, and the names of its parameters in order. */
export interface Statement {
  readonly text: string
  readonly parameters: readonly string[]
  /**
   * The name under which connections keep the statement prepared. It is derived from the text, so that a name always
   * means the same statement.
   */
  readonly name: string
}

/**
 * All statements of the store. Each is independent, so that a pooler may send each on another connection. Each
 * statement that writes waits for a lock no longer than its caller waits. Parameters and results are text, because
 * clients convert numbers and times differently. Column names are single words, because some clients are configured to
 * rewrite other names.
 */
export interface Statements {
  /** Returns the server's version and the format and completeness of the tables. */
  readonly look: Statement
  /** Returns whether the table for records exists. */
  readonly exists: Statement
  readonly find: Statement
  /**
   * Overwrites a record if the highest term and its duration stay the same and the server does not decide expiry: a
   * renewal or a release.
   */
  readonly renew: Statement
  /** Overwrites a record together with the highest term. */
  readonly take: Statement
  /** Inserts a record if there is neither a record nor a term. */
  readonly first: Statement
  /** Inserts a record if there is a term but no record. */
  readonly again: Statement
  /** Rewrites a record unchanged. A commit that waits for a standby also waits for all commits before it. */
  readonly confirm: Statement
  /** Deletes a record. */
  readonly forget: Statement
  /** Deletes a record together with its highest term. */
  readonly forgetTerm: Statement
  readonly list: Statement
}

/** Every write checks this condition, because the setting may differ between connections. */
const isDurable = `current_setting('synchronous_commit') <> 'off'`

/** The part that differs in every record. See `versionOf`. */
const uniquePart = 'left(right(record, 14), 12)'

/** The longest record that fits into a notification, which must be shorter than 8000 bytes. */
const longestNotified = 7_900

/** If the server decides expiry, its decision must still hold at the moment of the write. */
function isStill(endsAt: string): string {
  return `case :judged when 'held' then ${endsAt} > clock_timestamp() when 'over' then ${endsAt} <= clock_timestamp() else true end`
}

/** The statements for one set of tables. */
export function statementsFor({ leases, terms, meta, versions }: TableNames): Statements {
  const version = `nextval('${versions}')`
  const duration = 'cast(:leaseMs as double precision)'
  const end = `clock_timestamp() + cast(:endsInMs as double precision) * interval '1 millisecond'`
  // Only stores that trust the server's clock keep this column up to date. All others ignore it.
  const keptEnd = `case when :judged <> 'unjudged' then ${end} end`
  const isSeen = `election = :election and version = cast(:version as bigint) and ${uniquePart} = :unique and ${isDurable} and ${isLimited}`
  const limits = lockLimit(':lockMs')
  const update = `
    update ${leases} as lease set record = :record, version = ${version}, ends_at = ${end} from limits where ${isSeen}`
  // Notify in the statement itself, because a trigger would cost as much as the renewal.
  const written = `cast(version as text) as version, pg_notify(:channel,
    case when octet_length(:record) > ${longestNotified} then '-' || :election else version || ' ' || :record end), ${waited}`
  const insert = `
    insert into ${leases} (election, version, record, ends_at)
    select :election, ${version}, :record, ${end} from raised
    on conflict (election) do nothing returning ${written}`
  const isWhole = [leases, terms, versions].map((name) => `to_regclass('${name}') is not null`).join(' and ')
  const kept = `:election, cast(:term as bigint), ${duration}, ${keptEnd}`
  return {
    look: statement(`
      select current_setting('server_version_num') as server,
        (select cast(format as text) from ${meta} limit 1) as format, (select channel from ${meta} limit 1) as channel,
        cast(${isWhole} as text) as whole`),
    exists: statement(`select cast(to_regclass('${leases}') is not null as text) as exists`),
    find: statement(`
      select cast(pg_is_in_recovery() as text) as replica, current_setting('synchronous_commit') as sync,
        (select channel from ${meta} limit 1) as channel,
        cast(lease.version as text) as version, lease.record as record,
        cast(kept.term as text) as term, cast(kept.lease_ms as text) as duration,
        cast(1000 * extract(epoch from case when lease.election is null then kept.ends_at else lease.ends_at end
          - clock_timestamp()) as text) as remaining
      from (select :election as election) as asked
      left join ${leases} as lease on lease.election = asked.election
      left join ${terms} as kept on kept.election = asked.election`),
    renew: statement(`with ${limits} ${update} returning ${written}`),
    take: statement(`
      with ${limits}, swapped as (${update} and ${isStill('lease.ends_at')}
        and coalesce((select term from ${terms} where election = :election), 0) <= cast(:highestTerm as bigint)
        returning version),
      raised as (insert into ${terms} as kept (election, term, lease_ms, ends_at) select ${kept} from swapped
        on conflict (election) do update
        set term = greatest(kept.term, excluded.term), lease_ms = excluded.lease_ms, ends_at = excluded.ends_at)
      select ${written} from swapped`),
    first: statement(`
      with ${limits}, raised as (insert into ${terms} (election, term, lease_ms, ends_at)
        select ${kept} from limits where ${isDurable} and ${isLimited}
        on conflict (election) do nothing returning election)${insert}`),
    again: statement(`
      with ${limits}, raised as (
        update ${terms} as kept set term = cast(:term as bigint), lease_ms = ${duration}, ends_at = ${keptEnd} from limits
        where election = :election and term = cast(:highestTerm as bigint) and ${isDurable} and ${isStill('kept.ends_at')}
        and ${isLimited}
        returning election)${insert}`),
    confirm: statement(`
      with ${limits} update ${leases} set record = record from limits where ${isSeen} returning election, ${waited}`),
    forget: statement(`with ${limits} delete from ${leases} using limits where ${isSeen} returning election`),
    forgetTerm: statement(`
      with ${limits}, forgotten as (delete from ${leases} using limits where ${isSeen} returning election),
      gone as (delete from ${terms} where election in (select election from forgotten)
        and term = cast(:highestTerm as bigint))
      select election from forgotten`),
    list: statement(`
      select election, record, cast(version as text) as version from ${leases}
      where election > :after order by election limit cast(:limit as integer)`),
  }
}

/** Replaces names with `$1`, `$2`, ... */
function statement(named: string): Statement {
  const parameters: string[] = []
  const text = named.replace(/:(\w+)/g, (_, name: string) => {
    if (!parameters.includes(name)) parameters.push(name)
    return `cast($${parameters.indexOf(name) + 1} as text)`
  })
  return prepared(text, parameters)
}

/** A statement in the form in which it is sent. */
export function prepared(text: string, parameters: readonly string[] = []): Statement {
  const short = text.replace(/\s+/g, ' ').trim()
  return { text: short, parameters, name: `tenure_${createHash('sha256').update(short).digest('hex').slice(0, 40)}` }
}
