import { systemClock, uuid } from '@tenure/internal/clock'

/** Calls back after a while, unless the process ends before. */
export function after(delayMs: number, callback: () => void): void {
  systemClock.setTimer(delayMs, callback, { background: true })
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
  return { machineMs: systemClock.machineMs(), bootMs: systemClock.bootMs() }
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
  return systemClock.wallMs()
}

/** Calls back once, perhaps early for a very long delay. Gives a function that prevents it. */
export function setTimer(delayMs: number, callback: () => void): () => void {
  const timer = systemClock.setTimer(delayMs, callback)
  return () => timer.cancel()
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
  return uuid()
}

/** Calls back again and again. Gives a function that ends it. */
export function every(intervalMs: number, callback: () => void): () => void {
  const again = () => {
    cancel = setTimer(intervalMs, again)
    callback()
  }
  let cancel = setTimer(intervalMs, again)
  return () => cancel()
}
