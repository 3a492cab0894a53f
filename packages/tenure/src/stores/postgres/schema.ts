import { checkOptions } from '../../common/check-options.ts'
import { invalidOption } from '../../common/errors.ts'
import { namesOf, type TableNames } from './names.ts'

/** Format of the tables that this version writes. */
export const tableFormat = 1

/** SQLSTATE raised for a table of another program. */
export const foreignTable = 'TN001'

/**
 * One statement that creates all missing tables. Any number of processes may run it at once. It does not change
 * existing tables, and refuses relations that another program created under one of the names.
 *
 * Waiting for the advisory lock does not refresh a session's view of what others created in the meantime. Reading any
 * table does.
 *
 * Versions begin at a random number, so that none repeats after the tables are dropped and recreated.
 *
 * `lockMs`: how long to wait for a lock. Default: the session's setting.
 */
export function creation(
  { schema, leases, terms, meta, versions, notify, table }: TableNames,
  lockMs?: number,
): string {
  const limit = lockMs === undefined ? '' : `\n  perform set_config('lock_timeout', '${lockMs}', true);`
  const isOther = [
    hasOtherColumns(leases, 'election version record ends_at'),
    hasOtherColumns(terms, 'election term lease_ms ends_at'),
    `exists (select from pg_catalog.pg_class where oid = to_regclass('${versions}') and relkind <> 'S')`,
  ].join(' or ')
  return `do $tenure$
begin${limit}
  perform pg_advisory_xact_lock(hashtext('tenure'), hashtext('${table}'));
  perform from pg_catalog.pg_class limit 1;
  if ${isOther} then
    raise exception using errcode = '${foreignTable}', message = 'one of the names is taken already';
  end if;
  if to_regclass('${versions}') is null then
    execute 'create sequence ${versions} start with ' || cast(1 + floor(random() * 4e15) as bigint);
  end if;
  if to_regclass('${terms}') is null then
    create table ${terms} (
      election text collate "C" primary key,
      term bigint not null check (term > 0),
      lease_ms double precision not null,
      ends_at timestamptz
    ) with (fillfactor = 50);
  end if;
  if to_regclass('${meta}') is null then
    create table ${meta} (format integer not null, channel text not null);
  end if;
  if to_regprocedure('${notify}()') is null then
    execute format($create$
      create function ${notify}() returns trigger language plpgsql
      security definer set search_path = pg_catalog, pg_temp as $notify$
      declare
        secret text := (select channel from %I.%I limit 1);
      begin
        if secret is null then
          return null;
        elsif tg_op = 'TRUNCATE' then
          perform pg_notify(secret, '*');
        else
          perform pg_notify(secret, '-' || old.election);
        end if;
        return null;
      end $notify$
    $create$, '${schema}', '${bare(meta)}');
    revoke execute on function ${notify}() from public;
  end if;
  if to_regclass('${leases}') is null then
    create table ${leases} (
      election text collate "C" primary key,
      version bigint not null,
      record text not null,
      ends_at timestamptz not null
    ) with (fillfactor = 50);
    create trigger tenure_delete after delete on ${leases} for each row execute function ${notify}();
    create trigger tenure_truncate after truncate on ${leases} for each statement execute function ${notify}();
  end if;
  insert into ${meta} (format, channel)
    select ${tableFormat}, 'tenure_' || replace(cast(gen_random_uuid() as text), '-', '')
    where not exists (select from ${meta});
end $tenure$`
}

function hasOtherColumns(table: string, columns: string): string {
  return `coalesce((select string_agg(cast(attname as text), ' ' order by attnum) <> '${columns}'
    from pg_catalog.pg_attribute where attrelid = to_regclass('${table}') and attnum > 0 and not attisdropped), false)`
}

function bare(quoted: string): string {
  return quoted.replace(/^.*\./, '').replaceAll('"', '')
}

/** Options of {@link postgresSchema}. */
export interface PostgresSchemaOptions {
  /** The table for the records, as in the options of {@link postgresStore}. Default: `tenure_leases`. */
  readonly table?: string | undefined
  /** The role that campaigns. If set, the text also grants this role the rights that it needs. */
  readonly role?: string | undefined
}

/**
 * Returns the statements that create the store's tables and grant a role the rights to campaign: for a migration, or
 * for an administrator to run with `psql`. They can be run repeatedly.
 *
 * @example
 * console.log(postgresSchema({ table: 'jobs.leases', role: 'worker' }))
 */
export function postgresSchema(options: PostgresSchemaOptions = {}): string {
  checkOptions('postgresSchema()', options, { table: true, role: true })
  const { table = defaultTable, role } = options
  const names = namesOf(table)
  // This avoids "create schema if not exists", which requires the right to create schemas even if the schema exists.
  const home = `do $tenure$
begin
  if to_regnamespace('"${names.schema}"') is null then
    create schema "${names.schema}";
  end if;
end $tenure$`
  const statements = [home, creation(names)]
  if (role !== undefined) {
    if (typeof role !== 'string' || role === '') throw invalidOption('role', role, 'it must be the name of a role')
    const to = `to "${role.replaceAll('"', '""')}"`
    statements.push(
      `grant usage on schema "${names.schema}" ${to}`,
      `grant select, insert, update on ${names.leases}, ${names.terms} ${to}`,
      `grant select on ${names.meta} ${to}`,
      `grant usage on sequence ${names.versions} ${to}`,
    )
  }
  return `${statements.join(';\n')};\n`
}

/** The default table for records. */
export const defaultTable = 'tenure_leases'
