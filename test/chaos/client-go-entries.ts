import type { ClientGoEvent } from '../servers/client-go.ts'
import type { Entry } from './check-logs.ts'

/** How and when the process is told to end, in nanoseconds of the fleet's clock. */
export interface Order {
  readonly end: 'killed' | 'stopped'
  readonly at: number
}

/**
 * Converts the reports from a client-go process into entries of a candidate's log.
 *
 * The process leads from `started` to `stopped`, or to its death. When it is asked to end, it releases the lease before
 * it reports that it has stopped, so it counts as leading only until the request.
 */
export function clientGoEntries(
  events: readonly Omit<ClientGoEvent, 'identity'>[],
  order: Order | undefined,
  originNs = 0n,
): Entry[] {
  const entries: Entry[] = []
  const toldAt = order?.at ?? Infinity
  let leadership: { readonly term: number; readonly from: number } | undefined
  const end = (at: number) => {
    if (leadership && at >= leadership.from) entries.push({ kind: 'belief', term: leadership.term, from: at, to: at })
  }
  for (const { event, transitions = 0, monotonicMs } of events) {
    const at = monotonicMs * 1e6 - Number(originNs)
    if (event === 'started') {
      leadership = { term: transitions, from: at }
      entries.push({ kind: 'elected', term: transitions, at })
      if (at <= toldAt) end(at)
    }
    if (event === 'stopped' && leadership) {
      end(Math.min(at, toldAt))
      const reason = at < toldAt ? 'expired' : 'stopped'
      entries.push({ kind: 'lost', term: leadership.term, reason, at, clean: true })
      leadership = undefined
    }
  }
  if (order) end(order.at)
  if (order?.end === 'stopped') entries.push({ kind: 'stopped', at: order.at })
  return entries
}
