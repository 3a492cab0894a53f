import { now } from '../shared/clock.ts'

/** What signals to the wrapper mean. */
export interface SignalTarget {
  /** End in good order; the command gets the signal. */
  stop(signal: NodeJS.Signals): void
  /** End at once. */
  hurry(signal: NodeJS.Signals): void
  /** For the command alone. */
  pass(signal: NodeJS.Signals): void
  /** Ctrl-Z, and what follows it. */
  pause(): void
  resume(): void
}

/** A key in a terminal reaches both us and the `npx` that started us, which passes it on: both count as one signal. */
const sameMs = 250

/** Handles the signals of terminals and service managers. Gives a function that ends it. */
export function takeSignals(target: SignalTarget): () => void {
  let stoppedAtMs: number | undefined
  const stop = (signal: NodeJS.Signals) => {
    const nowMs = now().machineMs
    if (stoppedAtMs === undefined) {
      stoppedAtMs = nowMs
      target.stop(signal)
      // A terminal that closes signals all its processes, and a shell its jobs once more: that is not a request to hurry.
    } else if (signal !== 'SIGHUP' && nowMs - stoppedAtMs >= sameMs) target.hurry(signal)
  }
  const handlers: readonly (readonly [NodeJS.Signals, (signal: NodeJS.Signals) => void])[] = [
    ...(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP'] as const).map((signal) => [signal, stop] as const),
    ...(['SIGWINCH', 'SIGUSR1', 'SIGUSR2'] as const).map(
      (signal) => [signal, (name: NodeJS.Signals) => target.pass(name)] as const,
    ),
    [
      'SIGTSTP',
      () => {
        target.pause()
        process.kill(process.pid, 'SIGSTOP')
      },
    ],
    ['SIGCONT', () => target.resume()],
  ]
  for (const [signal, handler] of handlers) process.on(signal, handler)
  return () => {
    for (const [signal, handler] of handlers) process.off(signal, handler)
  }
}
