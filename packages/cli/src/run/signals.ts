import { now } from '../shared/clock.ts'

/** The handlers for signals to the wrapper. */
export interface SignalTarget {
  /** End gracefully. The command gets the signal. */
  stop(signal: NodeJS.Signals): void
  /** End at once. */
  stopNow(signal: NodeJS.Signals): void
  /** Forward the signal to the command, and do nothing else. */
  forward(signal: NodeJS.Signals): void
  /** Called on Ctrl-Z, and when the process is continued afterwards. */
  pause(): void
  resume(): void
}

/**
 * A key in a terminal signals both tenure and the `npx` that started it, and npx forwards its own. Two signals within
 * this time count as one.
 */
const duplicateSignalMs = 250

/**
 * Handles the signals of terminals and service managers. Returns a function to call when only the exit is left: from
 * then on, requests to end are ignored. Without a handler, the kernel would end the process, and the exit code of the
 * command would be lost.
 */
export function handleSignals(target: SignalTarget): () => void {
  let stoppedAtMs: number | undefined
  let isExiting = false
  const stop = (signal: NodeJS.Signals) => {
    if (isExiting) return
    const nowMs = now().machineMs
    if (stoppedAtMs === undefined) {
      stoppedAtMs = nowMs
      target.stop(signal)
      // A closing terminal signals all its processes, and the shell then signals its jobs again. A second SIGHUP is not
      // a request to hurry.
    } else if (signal !== 'SIGHUP' && nowMs - stoppedAtMs >= duplicateSignalMs) target.stopNow(signal)
  }
  const handlers: readonly (readonly [NodeJS.Signals, (signal: NodeJS.Signals) => void])[] = [
    ...(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP'] as const).map((signal) => [signal, stop] as const),
    ...(['SIGWINCH', 'SIGUSR1', 'SIGUSR2'] as const).map(
      (signal) => [signal, (name: NodeJS.Signals) => target.forward(name)] as const,
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
    isExiting = true
  }
}
