/**
 * Statements on PostgreSQL, for the election service's own data. Internal to Tenure's own packages: it may change in any
 * release, so they depend on this exact version.
 *
 * @module
 */
export { openPostgresStatements, type PostgresStatements } from '../stores/postgres/run-statements.ts'
