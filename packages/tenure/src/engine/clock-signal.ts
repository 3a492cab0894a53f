/**
 * Makes a signal check the clock before it answers. The timer that aborts the signal may be late: after a stall, timers
 * of the application that came due earlier run first. Code in those timers that reads `signal.aborted` would otherwise
 * continue while the next leader is already active. `look` aborts the signal if the lease has expired, so listeners and
 * dependent signals are also notified immediately.
 *
 * Only reads of this object check the clock. A signal that `AbortSignal.any()` derives from it has a plain flag, which
 * turns true when this signal aborts.
 */
export function answerByClock(signal: AbortSignal, look: () => void): void {
  const { prototype } = AbortSignal
  const answer = (name: 'aborted' | 'reason'): PropertyDescriptor => ({
    configurable: true,
    get(): unknown {
      look()
      return Reflect.get(prototype, name, signal)
    },
  })
  Object.defineProperties(signal, {
    aborted: answer('aborted'),
    reason: answer('reason'),
    throwIfAborted: {
      configurable: true,
      writable: true,
      value(): void {
        look()
        prototype.throwIfAborted.call(signal)
      },
    },
  })
}
