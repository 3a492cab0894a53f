/** Calls back after a while, unless the process ends before. */
export function after(delayMs: number, callback: () => void): void {
  setTimeout(callback, delayMs).unref()
}
