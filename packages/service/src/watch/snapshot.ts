import type { WatchedEvent } from '../http/schemas/watch.ts'
import type { Service } from '../http/service.ts'
import { leadershipOf } from '../http/views.ts'
import type { GroupStanding } from '../groups/groups.ts'
import { isWrittenAfter, type Position } from '../storage/position.ts'
import type { Change } from './feed.ts'

/** What a reader gets before anything new, or a part of it. */
export interface Snapshot {
  /** As JSON. */
  readonly events: readonly string[]
  /**
   * The reader has all changes up to here, of the groups whose state it was shown. If nothing is left, those are all of
   * its groups.
   */
  readonly position: Position
  /** The groups whose state comes next; none: that was all. */
  readonly left: readonly string[]
  /** The reader was told that something was missed. */
  readonly hasGap: boolean
}

/** From where a reader goes on whom the feed alone cannot help. */
export type Start =
  /** It comes for the first time. */
  | 'first'
  /** Something may have been missed in any group. */
  | 'gap'
  /** Something was missed in the groups whose record was written after a position. */
  | Position

/** A snapshot that is being taken. */
export interface SnapshotPart {
  /** Whose state the reader was shown, and up to where it has their changes; undefined: of none. */
  readonly shown: { readonly groups: readonly string[]; readonly position: Position } | undefined
  /** Whose state it gets, in this order. */
  readonly left: readonly string[]
  readonly from: Start
  /** It need not be told that something was missed, or was told before. */
  readonly hasGap: boolean
}

/** Groups that are asked about at once. */
const groupsAtOnce = 64
/** No part and no answer has more bytes, apart from its last events. A thousand groups with the longest texts would make megabytes. */
export const mostBytes = 256 * 1024

/**
 * The present state, for a reader that has no cursor, or one after which too little is left. In parts: each has the
 * changes since the last part in the groups that were shown before, and the states of some more. Undefined: the feed no
 * longer has those changes.
 */
export async function takeSnapshot(
  { hub, state, clock }: Pick<Service, 'hub' | 'state' | 'clock'>,
  { shown, left, from, hasGap: hadGap }: SnapshotPart,
): Promise<Snapshot | undefined> {
  const { feed } = hub
  const asked = left.slice(0, groupsAtOnce)
  for (;;) {
    const before = shown?.position ?? feed.position
    const answered = state.leaders(asked)
    const standings = answered instanceof Promise ? await answered : answered
    const late = feed.after(before)
    if (!late && shown) return undefined
    if (!late) continue
    const wallMs = clock.wallMs()
    const texts = new Texts()
    const shownBefore = new Set(shown?.groups)
    for (const entry of late) {
      if (shownBefore.has(entry.change.groupId)) texts.add(hub.eventOf(entry))
      if (texts.isFull) return { events: texts.all, position: entry.position, left, hasGap: hadGap }
    }
    const isUnknown = wasMissed(from, before)
    const known = new Map<string, number>()
    let hasGap = hadGap
    for (const [index, standing] of standings.entries()) {
      if (texts.isFull) break
      const groupId = asked[index] as string
      known.set(groupId, progressOf(standing))
      if (!isUnknown(standing)) continue
      if (!hasGap) texts.add({ type: 'GAP', ts_ms: wallMs })
      hasGap = true
      texts.add(stateOf(groupId, standing, wallMs))
    }
    // Changes that came while some states were waited for, unless the state shows them already: no reader is led back.
    for (const entry of late) {
      if (placeOf(entry.change) > (known.get(entry.change.groupId) ?? Infinity)) texts.add(hub.eventOf(entry))
    }
    return { events: texts.all, position: feed.position, left: left.slice(known.size), hasGap }
  }
}

/** Events as JSON, up to a number of bytes. */
class Texts {
  readonly all: string[] = []
  #bytes = 0

  get isFull(): boolean {
    return this.#bytes >= mostBytes
  }

  add(event: WatchedEvent): void {
    const json = JSON.stringify(event)
    this.all.push(json)
    this.#bytes += Buffer.byteLength(json)
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
