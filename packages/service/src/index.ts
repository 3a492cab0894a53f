/** Leader election over HTTP, on a data directory: anything that can send JSON takes part. */
export type { AuthenticationOptions } from './auth/authenticator.ts'
export type { CertificateOptions } from './auth/certificate.ts'
export type { JwtOptions } from './auth/jwt.ts'
export type { TlsOptions } from './auth/tls.ts'
export type { LimitOptions } from './limits.ts'
export { createLogger, type LogLevel } from './logging.ts'
export { startService, type RunningService, type ServiceOptions } from './start.ts'
export type { Policy } from './state.ts'
