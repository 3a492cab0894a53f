/**
 * Leader election over HTTP, with its data in a directory or on a server. Any program that can send JSON can take part.
 */
export type { AuthenticationOptions } from './auth/authenticator.ts'
export type { CertificateOptions } from './auth/certificate.ts'
export type { JwtOptions } from './auth/jwt.ts'
export type { TlsOptions } from './auth/tls.ts'
export type { LimitOptions } from './http/limit-options.ts'
export { createLogger, type LogLevel } from './operation/logging.ts'
export type { ServiceOptions } from './options.ts'
export { startService, type RunningService } from './start.ts'
export type { Policy } from './groups/port.ts'
