import type { Agent, RequestOptions } from 'node:https'

/** Where an API server is, and how to be let in. */
export interface Connection {
  /** An `https:` address, perhaps with a path below which the API lies. */
  readonly server: string
  /** Asked for before each call, because tokens and certificates are replaced while a process runs. */
  credentials(): Credentials | Promise<Credentials>
}

/** What one call presents. Calls with equal TLS options share connections. */
export interface Credentials {
  readonly authorization?: string | undefined
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'pfx' | 'rejectUnauthorized' | 'servername'>
  /** Only where connections must go another way, through a proxy for one. */
  readonly agent?: Agent | undefined
}
