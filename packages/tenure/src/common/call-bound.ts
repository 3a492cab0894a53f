/**
 * The end of a call, as stores see it: its caller aborts, or its deadline passes. Declared here, because the
 * declarations that users get must not name the private package that implements it.
 */
export interface CallBound {
  readonly ended: boolean
  /** Why the call ended. Undefined before its end. */
  readonly reason: unknown
  /** Time left until the deadline. Undefined if there is no deadline. */
  readonly leftMs: number | undefined
  onEnd(listener: (reason: Error) => void): void
  /** Resolves like the promise, but rejects when the call ends first. */
  race<T>(promise: Promise<T>): Promise<T>
}
