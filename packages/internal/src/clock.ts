/** The only place where time and randomness enter the program. */
import { closeSync, openSync, readSync } from 'node:fs'
import { uptime } from 'node:os'

const longestTimerMs = 2 ** 31 - 1

class SystemTimer {
  readonly #timeout: NodeJS.Timeout

  constructor(delayMs: number, callback: () => void, background: boolean) {
    // A longer delay would fire immediately. Waking early is harmless, because the code that set the timer checks the
    // clock again.
    this.#timeout = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), longestTimerMs))
    if (background) this.#timeout.unref()
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

/** The real clock. It implements the library's public `Clock` interface, which is declared in the package `tenure`. */
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
 * Returns a unique name. Two processes restored from the same snapshot must not generate the same name. So no name is
 * generated in advance, and the generator inside this process is not used, because a snapshot contains its state. A
 * snapshot of a whole machine also contains the state of the kernel's generator, until that is reseeded. The clock, in
 * nanoseconds, distinguishes such machines.
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
    // The file does not exist on this system, or no file descriptor is left.
    crypto.getRandomValues(bytes)
  }
  const [, nanoseconds] = process.hrtime()
  // An elector keeps several ids. Concatenating two strings would also keep both of them in memory.
  return [bytes.toString('base64url'), nanoseconds.toString(36)].join('')
}

/** Returns a unique id in the format that the HTTP API uses. */
export function uuid(): string {
  return crypto.randomUUID()
}

/** Returns `bytes` unpredictable bytes. */
export function secret(bytes: number): Buffer {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)).buffer)
}
