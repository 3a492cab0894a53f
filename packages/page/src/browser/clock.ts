/** The only place where the page gets the time from. */
import type { Moment } from '../model/elections.ts'

export function now(): Moment {
  return { monotonicMs: performance.now(), wallMs: Date.now() }
}

/** Calls back once, unless it is cancelled by what it returns. */
export function after(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms)
  return () => clearTimeout(timer)
}

/** Calls back again and again until it is ended by what it returns. */
export function every(ms: number, callback: () => void): () => void {
  const timer = setInterval(callback, ms)
  return () => clearInterval(timer)
}

/** Pages that lost the same server must not come back in the same moment. */
export function jitter(ms: number): number {
  return ms * (0.75 + Math.random() / 2)
}

/** Resolves after a while, or when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = after(ms, resolve)
    const end = () => {
      cancel()
      resolve()
    }
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
  })
}
