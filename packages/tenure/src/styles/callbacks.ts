import type { ElectionEvent, Observer } from '../events.ts'
import { warnOnce } from '../warnings.ts'

/** The observer, and a listener of one's own that is told whatever the observer throws. */
export function observeToo(observer: Observer | undefined, listener: (event: ElectionEvent) => void): Observer {
  return {
    onEvent(event) {
      try {
        return observer?.onEvent?.(event)
      } finally {
        listener(event)
      }
    },
    ...(observer?.onCall && { onCall: (report) => observer.onCall?.(report) }),
  }
}

/** Calls back; what that throws, or rejects with although nobody waits for it, is reported. */
export function contain(callBack: () => unknown, report: (cause: unknown) => void): void {
  try {
    Promise.resolve(callBack())
      .catch(report)
      .catch(() => undefined)
  } catch (cause) {
    report(cause)
  }
}

/** Warns of what an elector reports where nobody listens: a style's own observer is nobody. */
export function warnOf(event: ElectionEvent, observer: Observer | undefined): void {
  if ((event.type === 'error' || event.type === 'renew-failed') && !observer?.onEvent) warnOnce(event.error)
}

/** Tells an observer of an error that the elector knows nothing of. Where there is none, it is a warning. */
export function reportError(
  observer: Observer | undefined,
  told: { readonly error: unknown; readonly election: string; readonly identity: string },
): void {
  if (!observer?.onEvent) return warnOnce(told.error)
  contain(
    () => observer.onEvent?.({ type: 'error', ...told }),
    () => undefined,
  )
}
