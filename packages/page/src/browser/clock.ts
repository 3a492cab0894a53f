/** The page's only source of time. */
import type { PageMoment } from '../model/elections.ts'

export function now(): PageMoment {
  return { monotonicMs: performance.now(), wallMs: Date.now() }
}

/** Calls back once. Returns a function that cancels it. */
export function after(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms)
  return () => clearTimeout(timer)
}

/** Calls back repeatedly. Returns a function that stops it. */
export function every(ms: number, callback: () => void): () => void {
  const timer = setInterval(callback, ms)
  return () => clearInterval(timer)
}

/** Spreads reconnects, so that pages that lost the same server do not all return at the same moment. */
export function jitter(ms: number): number {
  return ms * (0.75 + Math.random() / 2)
}

/** Resolves after a delay, or when the signal aborts. */
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
