/** The tables of a service in PostgreSQL, and every statement on them. */
import { countReplicas } from '@tenure/internal/postgres-replicas'
import { isLimited, lockLimit, waited } from '@tenure/internal/postgres-waits'
import { wrongOption } from '../common/errors.ts'

/** The table name unless the URL names another. */
export const defaultTable = 'tenure_service'

/** Leaves room for the longest suffix, that of the lease tables, within PostgreSQL's 63-byte limit on names. */
const part = /^[A-Za-z_][A-Za-z0-9_]{0,47}$/
/** How long the creation of the tables waits for a lock. */
const createLockMs = 3_000

/** The server state that the statements need, in one row. */
const server = `
  server as materialized (
    select cast(pg_is_in_recovery() as text) as replica, current_setting('synchronous_commit') as sync,
      current_setting('synchronous_standby_names') as standbys, ${countReplicas} as replicas,
      case when pg_is_in_recovery() then '' else
        (select cast(system_identifier as text) from pg_control_system()) || '/' ||
        substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as incarnation)`

/** The conditions that must hold in the same statement that writes. {@link durabilityProblem} explains a violation. */
const isSound = `${isLimited} and server.replica = 'false' and server.sync <> 'off'
  and (server.standbys <> '' and server.sync <> 'local' or server.standbys = '' and server.replicas = '0'
    and (kept.synced <> server.incarnation or cast($1 as text) = 'restored'))`

/** The incarnation of the server, if it waited for replicas when it wrote the head. Otherwise empty. */
const synced = `case when server.standbys <> '' then server.incarnation else '' end`

/** The columns about the server and the head that every statement returns. */
const found = 'kept.head as head, kept.synced as synced, server.*'

/** Every column is text, as is every parameter. */
export function statementsFor(table: string) {
  const names = table.split('.')
  if (names.length > 2 || !names.every((name) => part.test(name))) {
    const rule =
      'it must be "table" or "schema.table" of letters, digits, and underscores, each with at most 48 characters.'
    throw wrongOption('table', ` ${JSON.stringify(table)} is not valid: `, rule)
  }
  const [name = '', schema = 'public'] = names.toReversed()
  const heads = `"${schema}"."${name}_head"`
  const groups = `"${schema}"."${name}_groups"`
  const batches = `"${schema}"."${name}_batches"`
  const limits = lockLimit('cast($2 as text)')
  const put = (head: string) => `
    update ${heads} as kept set head = ${head}, synced = ${synced} from limits, server where ${isSound}`
  return {
    /** The name of the table for the leases. */
    leases: `${schema}.${name}_leases`,
    exists: `select cast(to_regclass('${heads}') is not null and to_regclass('${groups}') is not null
      and to_regclass('${batches}') is not null as text) as exists`,
    /** May run in any number of processes concurrently. */
    create: `do $tenure$ begin
      perform set_config('lock_timeout', '${createLockMs}', true);
      perform pg_advisory_xact_lock(hashtext('tenure'), hashtext('${schema}.${name}'));
      perform from pg_catalog.pg_class limit 1;
      if to_regclass('${heads}') is null then
        create table ${heads} (
          one boolean primary key default true check (one), head text not null, synced text not null
        ) with (fillfactor = 10);
      end if;
      if to_regclass('${groups}') is null then
        create table ${groups} (id text collate "C" primary key, record text not null) with (fillfactor = 70);
      end if;
      if to_regclass('${batches}') is null then
        create table ${batches} (slot integer primary key, batch text not null) with (fillfactor = 50);
      end if;
    end $tenure$`,
    /** Writes the first head, unless there is already a head or a group. */
    begin: `
      with ${server} insert into ${heads} (head, synced) select cast($1 as text), ${synced} from server
      where not exists (select from ${groups}) on conflict do nothing`,
    find: `with ${server} select ${found} from server left join ${heads} as kept on true`,
    /**
     * Replaces the head $3 by $4, and writes the groups in $5 and the list entries in $6. $1 is 'restored' to accept a server that no longer waits for
     * replicas. $2, here and in the check, is how many milliseconds to wait for a lock.
     */
    swap: `
      with ${limits}, ${server},
      swapped as (${put('cast($4 as text)')} and kept.head = cast($3 as text) returning kept.one),
      written as (
        insert into ${groups} (id, record) select given.id, given.text
        from swapped, json_to_recordset(cast($5 as json)) as given(id text, text text)
        on conflict (id) do update set record = excluded.record),
      listed as (
        insert into ${batches} (slot, batch) select given.slot, given.text
        from swapped, json_to_recordset(cast($6 as json)) as given(slot integer, text text)
        on conflict (slot) do update set batch = excluded.batch)
      select cast((select count(*) from swapped) as text) as written, ${waited}, ${found}
      from server left join ${heads} as kept on true`,
    check: `
      with ${limits}, ${server}, checked as (${put('kept.head')} returning kept.one)
      select cast((select count(*) from checked) as text) as written, ${waited}, ${found}
      from server left join ${heads} as kept on true`,
    /** The head, then the groups after $1, at most $2. */
    page: `
      select head, id, record from (
        select head, null as id, null as record from ${heads} union all
        (select null, id, record from ${groups} where id > cast($1 as text) order by id limit cast($2 as integer))
      ) as page order by id collate "C" nulls first`,
    /** The head, then the groups in $1 that exist. */
    groups: `
      select head, id, record from (
        select head, null as id, null as record from ${heads} union all
        (select null, id, record from ${groups} where id in (select json_array_elements_text(cast($1 as json))))
      ) as found order by id collate "C" nulls first`,
    /** The list entries in $1 that exist. */
    batches: `
      select cast(slot as text) as slot, batch from ${batches}
      where slot in (select cast(json_array_elements_text(cast($1 as json)) as integer))`,
  }
}

/** The columns that show whether the server keeps writes that it has confirmed. */
export interface ServerDurability {
  readonly replica?: unknown
  readonly sync?: unknown
  readonly standbys?: unknown
  readonly replicas?: unknown
  readonly incarnation?: unknown
  readonly synced?: unknown
}

/** Returns why nothing may be written to this server, and what to do about it. Returns undefined if writes are safe. */
export function durabilityProblem({
  replica,
  sync,
  standbys,
  replicas,
  incarnation,
  synced,
}: ServerDurability): string | undefined {
  if (replica !== 'false') return 'it is a replica. Connect to the primary (target_session_attrs=read-write)'
  if (sync === 'off') {
    return 'synchronous_commit is off, so a crash could lose confirmed writes. Turn it on, at least for this role: alter role ... set synchronous_commit = on'
  }
  if (standbys !== '') {
    if (sync !== 'local') return undefined
    return 'synchronous_commit is local, so a failover could lose confirmed writes. Set it to on'
  }
  if (replicas !== '0') {
    return `it has replicas (${String(replicas)}) but waits for none of them, so a failover could lose confirmed writes. Set synchronous_standby_names`
  }
  if (synced !== incarnation) return undefined
  return 'it waited for a replica before and no longer does, so a failover to that replica would lose confirmed writes. Set synchronous_standby_names again. If the replica is permanently gone, stop all replicas of the service and run "tenure restore" on this store once'
}
