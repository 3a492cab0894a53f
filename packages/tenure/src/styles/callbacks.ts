import { contain } from '../contain.ts'
import type { ElectionEvent, Observer, Origin } from '../events.ts'
import { warnOnce } from '../warnings.ts'

/** The observer, and a listener of this library that is called even if the observer throws. */
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

/** Warns of what an elector reports if the user has no observer. A style's own observer does not count as one. */
export function warnOf(event: ElectionEvent, observer: Observer | undefined): void {
  if ((event.type === 'error' || event.type === 'renew-failed') && !observer?.onEvent) warnOnce(event.error)
}

/** Reports an error that the elector does not know of to the observer; without one, it is a warning. */
export function reportError(observer: Observer | undefined, report: Origin & { readonly error: unknown }): void {
  if (!observer?.onEvent) return warnOnce(report.error)
  contain(
    () => observer.onEvent?.({ type: 'error', ...report }),
    () => undefined,
  )
}
