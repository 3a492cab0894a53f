import { constants } from 'node:os'
import type { CommandLog } from './log.ts'

/** The exit code of a program that was ended by a signal. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

/** The first signal stops gracefully, the second exits at once. */
export function stopOnSignals(log: CommandLog, end: () => Promise<void>): void {
  let isEnding = false
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (isEnding) process.exit(signalExitCode(signal))
      isEnding = true
      log.info({ signal }, `stopping on ${signal}`)
      void end().then(() => process.exit(0))
    })
  }
}
