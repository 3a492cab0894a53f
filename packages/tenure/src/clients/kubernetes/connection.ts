import type { Credentials } from '../http/credentials.ts'

/** The namespace of a pod or a context, and where it is defined. */
export interface ConfiguredNamespace {
  readonly namespace: string
  /** A sentence such as `This pod is in "jobs".` */
  readonly description: string
}

/** The URL of an API server, and credentials for it. */
export interface Connection {
  /** An `https:` URL, which may contain a path to the API. */
  readonly server: string
  /** Called before each call, because tokens and certificates are replaced while a process runs. */
  credentials(): Credentials | Promise<Credentials>
  /** Undefined if the namespace is unknown. */
  configuredNamespace?(): ConfiguredNamespace | undefined
}
