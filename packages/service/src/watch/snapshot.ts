import type { WatchedEvent } from '../http/schemas/watch.ts'
import type { Service } from '../http/service.ts'
import { leadershipOf } from '../http/views.ts'
import type { GroupStanding } from '../groups/groups.ts'
import { isWrittenAfter, type Position } from '../storage/position.ts'
import type { Change } from './feed.ts'

/** What a reader gets before anything new. */
export interface Snapshot {
  /** Each is made when it is sent: the events of a thousand groups would take megabytes. */
  readonly events: readonly (() => WatchedEvent)[]
  /** With the last of these events, and not before, the reader has all changes of its groups up to here. */
  readonly position: Position
}

/** From where a reader goes on whom the feed alone cannot help. */
export type Start =
  /** It comes for the first time. */
  | 'first'
  /** Something may have been missed in any group. */
  | 'gap'
  /** Something was missed in the groups whose record was written after a position. */
  | Position

/** The present state, for a reader that has no cursor, or one after which too little is left. */
export async function takeSnapshot(
  { hub, state, clock }: Pick<Service, 'hub' | 'state' | 'clock'>,
  groups: readonly string[],
  from: Start,
): Promise<Snapshot> {
  const { feed } = hub
  for (;;) {
    const before = feed.position
    const asked = state.leaders(groups)
    const standings = asked instanceof Promise ? await asked : asked
    const late = feed.after(before)
    if (!late) continue
    const wallMs = clock.wallMs()
    const isUnknown = wasMissed(from, before)
    const states = standings.flatMap((standing, index) =>
      isUnknown(standing) ? [() => stateOf(groups[index] as string, standing, wallMs)] : [],
    )
    const known = new Map(standings.map((standing, index) => [groups[index], progressOf(standing)]))
    // Changes that came while some states were waited for, unless the state shows them already: no reader is led back.
    const news = late.filter(({ change }) => placeOf(change) > (known.get(change.groupId) ?? Infinity))
    return {
      events: [
        ...(from === 'first' || states.length === 0 ? [] : [() => ({ type: 'GAP' as const, ts_ms: wallMs })]),
        ...states,
        ...news.map((entry) => () => hub.eventOf(entry)),
      ],
      position: feed.position,
    }
  }
}

/** Whether a reader does not know how a group stands. */
function wasMissed(from: Start, now: Position): (standing: GroupStanding) => boolean {
  if (from === 'first' || from === 'gap' || from.restores !== now.restores) return () => true
  return ({ seq }) => isWrittenAfter(seq, from)
}

function stateOf(group_id: string, standing: GroupStanding, wallMs: number): WatchedEvent {
  return { type: 'STATE', group_id, ...leadershipOf(standing, wallMs), ts_ms: wallMs }
}

/** A group's terms begin and end in one order. */
function placeOf({ type, lease }: Change): number {
  return lease.term * 2 + (type === 'LEADER_LOST' ? 1 : 0)
}

function progressOf({ lease }: GroupStanding): number {
  return lease ? lease.term * 2 + (lease.ended ? 1 : 0) : 0
}
