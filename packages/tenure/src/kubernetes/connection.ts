import type { Credentials } from '../http/credentials.ts'

/** Where an API server is, and how to be let in. */
export interface Connection {
  /** An `https:` address, perhaps with a path below which the API lies. */
  readonly server: string
  /** Asked for before each call, because tokens and certificates are replaced while a process runs. */
  credentials(): Credentials | Promise<Credentials>
}
