/**
 * Where lines for people go: `console`, a logger of pino, or anything with these three methods.
 *
 * - `error`: leadership was lost, or work, a job or a listener failed.
 * - `warn`: a call to the store failed, or the store answers again.
 * - `info`: normal life, such as an election. Only a log that was passed as an option gets these.
 *
 * It is called at once and never awaited. What it throws or rejects with is dropped.
 *
 * @example
 * const elector = new Elector({ store, election: 'payments', log: pino() })
 */
export interface Log {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** What is used unless a log is given. Nothing is printed on standard error while all goes well. */
export const defaultLog: Log = {
  info: () => undefined,
  warn: (message) => console.warn(message),
  error: (message) => console.error(message),
}
