/**
 * Makes a signal look at the clock before it answers. A timer that is to abort it may be late: after a stall, the timers of
 * the application that came due first run before it. Then code that asks `signal.aborted` would go on beside the next
 * leader. `look` aborts the signal if it is time, so that its listeners and dependent signals hear of it at once, too.
 *
 * Only questions to this very object look. A signal made of it by `AbortSignal.any()` has a plain flag, which turns true
 * when this one aborts.
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
