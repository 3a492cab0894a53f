import type { Agent, RequestOptions } from 'node:https'

/** The credentials of one call. Calls with equal TLS options share connections. */
export interface Credentials {
  readonly authorization?: string | undefined
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'pfx' | 'rejectUnauthorized' | 'servername'>
  /** Set only if connections must take another route, for example through a proxy. */
  readonly agent?: Agent | undefined
}
