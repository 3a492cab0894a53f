import { closeSync, openSync } from 'node:fs'
import { constants } from 'node:os'
import { after } from './clock.ts'
import { exitCodes } from './errors.ts'

/** What runs until a signal comes. */
export interface Running {
  reload(): Promise<void>
  close(): Promise<void>
}

export interface Log {
  info(text: string): void
  info(fields: object, text: string): void
  error(fields: object, text: string): void
}

const longestStopMs = 10_000

/** SIGHUP reloads. The first SIGTERM or SIGINT ends it in good order, the second at once. */
export function stopOnSignals(running: Running, log: Log): void {
  let reloading = Promise.resolve()
  const inTerminal = hasTerminal()
  process.on('SIGHUP', () => {
    // Somebody closed the window, and would find the address taken the next time.
    if (inTerminal && !hasTerminal()) onStop('SIGHUP')
    else reloading = reloading.then(() => reload(running, log))
  })
  let stopping = false
  const onStop = (signal: 'SIGHUP' | 'SIGINT' | 'SIGTERM') => {
    if (stopping) process.exit(128 + constants.signals[signal])
    stopping = true
    log.info({ signal }, 'stopping')
    after(longestStopMs, () => {
      log.error({ afterMs: longestStopMs }, 'stopping took too long')
      process.exit(exitCodes.failed)
    })
    void stop(running, log)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => onStop(signal))
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

async function stop(running: Running, log: Log): Promise<void> {
  try {
    await running.close()
    log.info('stopped')
    process.exit(0)
  } catch (err) {
    log.error({ err }, 'stopping failed')
    process.exit(exitCodes.failed)
  }
}

async function reload(running: Running, log: Log): Promise<void> {
  try {
    await running.reload()
    log.info('keys, certificates and rights were read again')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    log.error({ reason }, 'keys, certificates and rights stay as they were')
  }
}
