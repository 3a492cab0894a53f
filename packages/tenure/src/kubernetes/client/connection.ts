import type { Credentials } from '../../http/credentials.ts'

/** The namespace that a pod or a context is in, and the source of that. */
export interface HomeNamespace {
  readonly namespace: string
  /** A sentence such as `This pod is in "jobs".` */
  readonly said: string
}

/** The address of an API server, and credentials for it. */
export interface Connection {
  /** An `https:` address, perhaps with a path below which the API is. */
  readonly server: string
  /** Asked for before each call, because tokens and certificates are replaced while a process runs. */
  credentials(): Credentials | Promise<Credentials>
  /** Undefined if it is not known. */
  home?(): HomeNamespace | undefined
}
