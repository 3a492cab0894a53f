import { randomBytes, randomUUID } from 'node:crypto'
import { uptime } from 'node:os'
import type { Clock } from 'tenure'

/** The real clock. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  machineMs: () => Number(process.hrtime.bigint()) / 1e6,
  bootMs: () => uptime() * 1e3,
  wallMs: () => Date.now(),
  setTimer(delayMs, callback, options) {
    const timeout = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), 2 ** 31 - 1))
    if (options?.background) timeout.unref()
    return { cancel: () => clearTimeout(timeout) }
  },
  random: () => Math.random(),
  randomId: () => randomUUID(),
}

/** So many bytes that nobody can guess. */
export function secret(bytes: number): Buffer {
  return randomBytes(bytes)
}
