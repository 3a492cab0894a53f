import { closeSync, openSync } from 'node:fs'
import type { createLogger, RunningService } from '@tenure/service'
import { setBackgroundTimer } from '../../shared/clock.ts'
import { messageOf } from '@tenure/internal/message'

type Logger = ReturnType<typeof createLogger>

const longestStopMs = 10_000

/** SIGHUP reloads. The first SIGTERM or SIGINT stops gracefully, the second ends the process at once. */
export function stopOnSignals(running: RunningService, log: Logger): void {
  let reloading = Promise.resolve()
  const inTerminal = hasTerminal()
  process.on('SIGHUP', () => {
    // The terminal was closed. If the service kept running, its address would be in use at the next start.
    if (inTerminal && !hasTerminal()) onStop('SIGHUP')
    else reloading = reloading.then(() => reload(running, log))
  })
  let stopping = false
  const onStop = (signal: 'SIGHUP' | 'SIGINT' | 'SIGTERM') => {
    if (stopping) endNow(signal)
    stopping = true
    log.info({ signal }, 'stopping')
    setBackgroundTimer(longestStopMs, () => {
      log.error({ afterMs: longestStopMs }, 'stopping took too long')
      endNow('SIGKILL')
    })
    void stop(running, log)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => onStop(signal))
}

/**
 * Ends the process by a signal. process.exit() would wait for file system calls in flight. On a disk that hangs, these
 * may never return, and the service could not be restarted.
 */
function endNow(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

async function stop(running: RunningService, log: Logger): Promise<void> {
  try {
    await running.close()
    log.info('stopped')
    process.exit(0)
  } catch (err) {
    log.error({ err }, 'stopping failed')
    endNow('SIGKILL')
  }
}

async function reload(running: RunningService, log: Logger): Promise<void> {
  try {
    await running.reload()
    log.info('reloaded keys, certificates and rights')
  } catch (error) {
    const reason = messageOf(error)
    log.error({ reason }, 'cannot reload keys, certificates and rights; the old ones stay in use')
  }
}
