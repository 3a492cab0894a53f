/** Waits for `ms`, or until the signal aborts. */
export function pause(
  clock: { setTimer(delayMs: number, callback: () => void): { cancel(): void } },
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const end = () => {
      timer.cancel()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = clock.setTimer(ms, end)
    signal.addEventListener('abort', end, { once: true })
  })
}
