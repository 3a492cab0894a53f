import { now } from '../shared/clock.ts'

/** What to do on signals to the wrapper. */
export interface SignalTarget {
  /** End gracefully; the command gets the signal. */
  stop(signal: NodeJS.Signals): void
  /** End at once. */
  hurry(signal: NodeJS.Signals): void
  /** Forward the signal to the command, and do nothing else. */
  pass(signal: NodeJS.Signals): void
  /** Ctrl-Z, and the continuation after it. */
  pause(): void
  resume(): void
}

/**
 * A key in a terminal signals both tenure and the `npx` that started it, and npx forwards its own. Two signals within
 * this time count as one.
 */
const sameMs = 250

/** Handles the signals of terminals and service managers. Returns a function that removes the handlers. */
export function takeSignals(target: SignalTarget): () => void {
  let stoppedAtMs: number | undefined
  const stop = (signal: NodeJS.Signals) => {
    const nowMs = now().machineMs
    if (stoppedAtMs === undefined) {
      stoppedAtMs = nowMs
      target.stop(signal)
      // A closing terminal signals all its processes, and the shell then signals its jobs again. A second SIGHUP is not
      // a request to hurry.
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
