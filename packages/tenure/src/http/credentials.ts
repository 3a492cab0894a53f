import type { Agent, RequestOptions } from 'node:https'

/** What one call presents. Calls with equal TLS options share connections. */
export interface Credentials {
  readonly authorization?: string | undefined
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'pfx' | 'rejectUnauthorized' | 'servername'>
  /** Only where connections must go another way, through a proxy for one. */
  readonly agent?: Agent | undefined
}
