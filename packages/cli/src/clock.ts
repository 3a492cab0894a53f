import { uptime } from 'node:os'

/** Calls back after a while, unless the process ends before. */
export function after(delayMs: number, callback: () => void): void {
  setTimeout(callback, delayMs).unref()
}

/**
 * A moment on the two clocks that all processes of a machine share until it restarts. The first is exact and may stand
 * still while the machine sleeps; the second is coarse and goes on.
 */
export interface Moment {
  readonly machineMs: number
  readonly bootMs: number
}

export function now(): Moment {
  const [seconds, nanoseconds] = process.hrtime()
  return { machineMs: seconds * 1e3 + nanoseconds / 1e6, bootMs: uptime() * 1e3 }
}

export function later({ machineMs, bootMs }: Moment, ms: number): Moment {
  return { machineMs: machineMs + ms, bootMs: bootMs + ms }
}

/** How long until a moment, by the clock that says less. Negative once it has passed. */
export function untilMs(moment: Moment): number {
  const { machineMs, bootMs } = now()
  return Math.min(moment.machineMs - machineMs, moment.bootMs - bootMs)
}

/** Unix time. It may jump, and differs from machine to machine. */
export function wallMs(): number {
  return Date.now()
}

const longestTimerMs = 2 ** 31 - 1

/** Calls back once, perhaps early for a very long delay. Gives a function that prevents it. */
export function setTimer(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), longestTimerMs))
  return () => clearTimeout(timer)
}

/**
 * For who waits for an answer: it may have come and not been read yet, if this process was kept from running. Reads
 * what is there before it calls back.
 */
export function setPatientTimer(delayMs: number, callback: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined
  const cancel = setTimer(delayMs, () => (immediate = setImmediate(callback)))
  return () => {
    cancel()
    clearImmediate(immediate)
  }
}

/** A name that nobody else ever draws. */
export function randomId(): string {
  return crypto.randomUUID()
}

/** Calls back again and again. Gives a function that ends it. */
export function every(intervalMs: number, callback: () => void): () => void {
  const timer = setInterval(callback, intervalMs)
  return () => clearInterval(timer)
}
