/** The only place where time and chance come from outside. */
import { closeSync, openSync, readSync } from 'node:fs'
import { uptime } from 'node:os'

const longestTimerMs = 2 ** 31 - 1

class SystemTimer {
  readonly #timeout: NodeJS.Timeout

  constructor(delayMs: number, callback: () => void, background: boolean) {
    // A longer delay would fire at once. Waking early is harmless: what set the timer looks at the clock again.
    this.#timeout = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), longestTimerMs))
    if (background) this.#timeout.unref()
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

/** The real clock. Its type is the library's `Clock`, which is declared where users find it. */
export const systemClock = {
  monotonicMs: (): number => performance.now(),
  machineMs(): number {
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1e3 + nanoseconds / 1e6
  },
  bootMs: (): number => uptime() * 1e3,
  wallMs: (): number => Date.now(),
  setTimer: (
    delayMs: number,
    callback: () => void,
    options?: { background?: boolean | undefined },
  ): { cancel(): void } => new SystemTimer(delayMs, callback, options?.background ?? false),
  random: (): number => Math.random(),
  randomId,
}

const idBytes = 12

/**
 * Two processes that were restored from one snapshot must not draw the same name, so nothing is drawn ahead, and not
 * from the generator within this process, whose state a snapshot contains. A snapshot of a whole machine contains the
 * kernel's generator as well, until that is seeded again; the clock, in nanoseconds, sets those apart.
 */
function randomId(): string {
  const bytes = Buffer.alloc(idBytes)
  try {
    const kernel = openSync('/dev/urandom', 'r')
    try {
      readSync(kernel, bytes)
    } finally {
      closeSync(kernel)
    }
  } catch {
    // No such file on this system, or no descriptor left.
    crypto.getRandomValues(bytes)
  }
  const [, nanoseconds] = process.hrtime()
  return bytes.toString('base64url') + nanoseconds.toString(36)
}

/** A name that nobody else draws, in the form that the HTTP API shows. */
export function uuid(): string {
  return crypto.randomUUID()
}

/** So many bytes that nobody can guess. */
export function secret(bytes: number): Buffer {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)).buffer)
}
