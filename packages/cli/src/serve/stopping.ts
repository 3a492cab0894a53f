import { closeSync, openSync } from 'node:fs'
import type { createLogger, RunningService } from '@tenure/service'
import { after } from '../shared/clock.ts'
import { messageOf } from '@tenure/internal/message'

type Logger = ReturnType<typeof createLogger>

const longestStopMs = 10_000

/** SIGHUP reloads. The first SIGTERM or SIGINT ends it in good order, the second at once. */
export function stopOnSignals(running: RunningService, log: Logger): void {
  let reloading = Promise.resolve()
  const inTerminal = hasTerminal()
  process.on('SIGHUP', () => {
    // The window was closed. If this went on, the address would be taken at the next start.
    if (inTerminal && !hasTerminal()) onStop('SIGHUP')
    else reloading = reloading.then(() => reload(running, log))
  })
  let stopping = false
  const onStop = (signal: 'SIGHUP' | 'SIGINT' | 'SIGTERM') => {
    if (stopping) endNow(signal)
    stopping = true
    log.info({ signal }, 'stopping')
    after(longestStopMs, () => {
      log.error({ afterMs: longestStopMs }, 'stopping took too long')
      endNow('SIGKILL')
    })
    void stop(running, log)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => onStop(signal))
}

/**
 * Not by process.exit(), which waits for file system calls that are under way: on a disk that hangs one may never return,
 * and then the service could not be started again.
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
    log.info('keys, certificates and rights were read again')
  } catch (error) {
    const reason = messageOf(error)
    log.error({ reason }, 'keys, certificates and rights stay as they were')
  }
}
