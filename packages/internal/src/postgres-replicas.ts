/**
 * How many replicas follow a PostgreSQL server, as an SQL expression that returns text. Backups and logical subscribers
 * do not count, because they cannot replace the server.
 */
export const countReplicas = `
  cast((select count(*) from pg_stat_replication as replica where coalesce(state, '') <> 'backup' and not exists (
    select from pg_replication_slots where active_pid = replica.pid and slot_type = 'logical')) as text)`
