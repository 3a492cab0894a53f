/**
 * How many replicas follow a PostgreSQL, as an expression that gives a text. Who copies the database, or follows some
 * tables of it, does not take its place.
 */
export const countReplicas = `
  cast((select count(*) from pg_stat_replication as replica where coalesce(state, '') <> 'backup' and not exists (
    select from pg_replication_slots where active_pid = replica.pid and slot_type = 'logical')) as text)`
