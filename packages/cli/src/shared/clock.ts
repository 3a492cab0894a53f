import { systemClock, uuid } from '@tenure/internal/clock'

/** Calls back after a delay, unless the process exits first. The timer does not keep the process alive. */
export function setBackgroundTimer(delayMs: number, callback: () => void): void {
  systemClock.setTimer(delayMs, callback, { background: true })
}

/**
 * A moment on two clocks that all processes of a machine share until it reboots. The first is precise but may pause
 * while the machine sleeps. The second is coarse but counts sleep.
 */
export interface Moment {
  readonly machineMs: number
  readonly bootMs: number
}

export function now(): Moment {
  return { machineMs: systemClock.machineMs(), bootMs: systemClock.bootMs() }
}

export function addMs({ machineMs, bootMs }: Moment, ms: number): Moment {
  return { machineMs: machineMs + ms, bootMs: bootMs + ms }
}

/** The time until a moment, by the clock that shows less time left. Negative once the moment has passed. */
export function untilMs(moment: Moment): number {
  const { machineMs, bootMs } = now()
  return Math.min(moment.machineMs - machineMs, moment.bootMs - bootMs)
}

/** Unix time in milliseconds. It may jump, and differs between machines. */
export function wallMs(): number {
  return systemClock.wallMs()
}

/** Calls back once, possibly early for a very long delay. Returns a function that cancels it. */
export function setTimer(delayMs: number, callback: () => void): () => void {
  const timer = systemClock.setTimer(delayMs, callback)
  return () => timer.cancel()
}

/**
 * Sets a timer for a caller that waits for a message. If this process was stalled, the message may have arrived without
 * being read. So pending input is read before the callback.
 */
export function setTimerAfterInput(delayMs: number, callback: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined
  const cancel = setTimer(delayMs, () => (immediate = setImmediate(callback)))
  return () => {
    cancel()
    clearImmediate(immediate)
  }
}

/** Returns a random id that is unique. */
export function randomId(): string {
  return uuid()
}

/** Calls back repeatedly. Returns a function that stops it. */
export function every(intervalMs: number, callback: () => void): () => void {
  const again = () => {
    cancel = setTimer(intervalMs, again)
    callback()
  }
  let cancel = setTimer(intervalMs, again)
  return () => cancel()
}
