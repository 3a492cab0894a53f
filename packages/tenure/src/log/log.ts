/**
 * Where log lines are written: `console`, a pino logger, or any object with these three methods.
 *
 * - `error`: leadership was lost, or work, a job, or a listener failed.
 * - `warn`: a call to the store failed, or the store answers again.
 * - `info`: normal operation, such as an election. Only a log that was passed as an option gets these.
 *
 * Its methods are called synchronously and never awaited. Errors that they throw or reject with are dropped.
 *
 * @example
 * const elector = new Elector({ store, election: 'payments', log: pino() })
 */
export interface Log {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** The log that is used if none is passed. It writes nothing to standard error while everything works. */
export const defaultLog: Log = {
  info: () => undefined,
  warn: (message) => console.warn(message),
  error: (message) => console.error(message),
}
