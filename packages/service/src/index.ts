/** Leader election over HTTP, on a data directory: anything that can send JSON takes part. */
export type { Authenticator, Identity } from './access.ts'
export { startService, type RunningService, type ServiceOptions } from './start.ts'
export type { Policy } from './state.ts'
