import type { ClientGoEvent } from '../servers/client-go.ts'
import type { Entry } from './check.ts'

/** How the process is told to end, and when, in nanoseconds of the fleet's clock. */
export interface Order {
  readonly end: 'killed' | 'stopped'
  readonly at: number
}

/**
 * Converts what a client-go process reported into entries of a candidate's log.
 *
 * The process leads from `started` to `stopped`, or to its death. When it is told to end, it releases the lease before
 * it reports that it has stopped, so it counts as leading only until it was told.
 */
export function clientGoEntries(
  events: readonly Omit<ClientGoEvent, 'identity'>[],
  order: Order | undefined,
  originNs = 0n,
): Entry[] {
  const entries: Entry[] = []
  const toldAt = order?.at ?? Infinity
  let reign: { readonly term: number; readonly from: number } | undefined
  const end = (at: number) => {
    if (reign && at >= reign.from) entries.push({ kind: 'belief', term: reign.term, from: at, to: at })
  }
  for (const { event, transitions = 0, monotonicMs } of events) {
    const at = monotonicMs * 1e6 - Number(originNs)
    if (event === 'started') {
      reign = { term: transitions, from: at }
      entries.push({ kind: 'elected', term: transitions, at })
      if (at <= toldAt) end(at)
    }
    if (event === 'stopped' && reign) {
      end(Math.min(at, toldAt))
      const reason = at < toldAt ? 'expired' : 'stopped'
      entries.push({ kind: 'lost', term: reign.term, reason, at, clean: true })
      reign = undefined
    }
  }
  if (order) end(order.at)
  if (order?.end === 'stopped') entries.push({ kind: 'stopped', at: order.at })
  return entries
}
