/**
 * What the `tenure` command does to a service's data and tokens. Internal to Tenure's own packages: it may change in any
 * release, so they depend on this exact version.
 *
 * @module
 */
export {
  createTokenKey,
  signToken,
  type SignedToken,
  type TokenKey,
  type TokenOptions,
} from './auth/self-issued-tokens.ts'
export { backupData, restoreData, type BackupOptions, type RestoreOptions } from './storage/backup.ts'
export { migrateData, restoreShared, type MigrateOptions, type RestoreSharedOptions } from './storage/migrate.ts'
export { rotateSecret, type RotateOptions } from './storage/rotate-secret.ts'
