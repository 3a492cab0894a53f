import type { Change } from './feed.ts'
import type { WatchedEvent } from './schemas.ts'
import type { Service } from './service.ts'
import type { Verdict } from './state.ts'
import { leadershipOf } from './views.ts'

/** What a reader is told before anything new. */
export interface Beginning {
  readonly events: WatchedEvent[]
  /** All of its groups' changes up to here are told with the last of these events, none of them before. */
  readonly position: number
}

/** How things stand, for a reader that brings no cursor, or one of which too little is left. */
export async function beginning(service: Service, groups: readonly string[], gap: boolean): Promise<Beginning> {
  const { hub, state, clock } = service
  const { feed } = hub
  for (;;) {
    const before = feed.position
    const asked = groups.map((group) => state.leader(group))
    // Most are known at once: then nothing happens between the first and the last of them.
    const waits = asked.some((verdict) => verdict instanceof Promise)
    const verdicts = waits ? await Promise.all(asked.map(async (verdict) => verdict)) : (asked as Verdict[])
    const late = feed.after(before)
    if (!late) continue
    const wallMs = clock.wallMs()
    const states = verdicts.map((verdict, index) => ({
      type: 'STATE' as const,
      group_id: groups[index] as string,
      ...leadershipOf(verdict, wallMs),
      ts_ms: wallMs,
    }))
    const known = new Map(verdicts.map((verdict, index) => [groups[index], progressOf(verdict)]))
    // What came while some were waited for, unless the state shows it already: no reader is led back.
    const news = late.filter(({ change }) => placeOf(change) > (known.get(change.groupId) ?? Infinity))
    return {
      events: [
        ...(gap ? [{ type: 'GAP' as const, ts_ms: wallMs }] : []),
        ...states,
        ...news.map(({ change }) => hub.describe(change)),
      ],
      position: feed.position,
    }
  }
}

/** A group's terms begin and end in one order. */
function placeOf({ type, lease }: Change): number {
  return lease.term * 2 + (type === 'LEADER_LOST' ? 1 : 0)
}

function progressOf({ lease }: Verdict): number {
  return lease ? lease.term * 2 + (lease.ended ? 1 : 0) : 0
}
