import type { WatchedEvent } from '../http/schemas/watch.ts'
import type { Service } from '../http/service.ts'
import { leadershipOf } from '../http/views.ts'
import type { GroupStanding } from '../groups/groups.ts'
import type { Change } from './feed.ts'

/** What a reader gets before anything new. */
export interface Snapshot {
  /** Each is made when it is sent: the events of a thousand groups would take megabytes. */
  readonly events: readonly (() => WatchedEvent)[]
  /** With the last of these events, and not before, the reader has all changes of its groups up to here. */
  readonly position: number
}

/** The present state, for a reader that has no cursor, or one after which too little is left. */
export async function takeSnapshot(service: Service, groups: readonly string[], gap: boolean): Promise<Snapshot> {
  const { hub, state, clock } = service
  const { feed } = hub
  for (;;) {
    const before = feed.position
    const asked = groups.map((group) => state.leader(group))
    // Most are known at once: then nothing happens between the first and the last of them.
    const waits = asked.some((verdict) => verdict instanceof Promise)
    const verdicts = waits ? await Promise.all(asked.map(async (verdict) => verdict)) : (asked as GroupStanding[])
    const late = feed.after(before)
    if (!late) continue
    const wallMs = clock.wallMs()
    const states = verdicts.map((verdict, index) => () => ({
      type: 'STATE' as const,
      group_id: groups[index] as string,
      ...leadershipOf(verdict, wallMs),
      ts_ms: wallMs,
    }))
    const known = new Map(verdicts.map((verdict, index) => [groups[index], progressOf(verdict)]))
    // Changes that came while some states were waited for, unless the state shows them already: no reader is led back.
    const news = late.filter(({ change }) => placeOf(change) > (known.get(change.groupId) ?? Infinity))
    return {
      events: [
        ...(gap ? [() => ({ type: 'GAP' as const, ts_ms: wallMs })] : []),
        ...states,
        ...news.map((entry) => () => hub.eventOf(entry)),
      ],
      position: feed.position,
    }
  }
}

/** A group's terms begin and end in one order. */
function placeOf({ type, lease }: Change): number {
  return lease.term * 2 + (type === 'LEADER_LOST' ? 1 : 0)
}

function progressOf({ lease }: GroupStanding): number {
  return lease ? lease.term * 2 + (lease.ended ? 1 : 0) : 0
}
