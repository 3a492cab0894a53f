import type { WatchedEvent } from '../http/schemas/watch.ts'
import type { Service } from '../http/service.ts'
import { leadershipOf } from '../http/views.ts'
import type { GroupStanding } from '../groups/groups.ts'
import { isWrittenAfter, type Position } from '../storage/position.ts'
import type { Change } from './feed.ts'

/** What a reader gets before any new changes, or a part of it. */
export interface Snapshot {
  /** The events as JSON. */
  readonly events: readonly string[]
  /**
   * The reader has all changes up to here, in the groups whose state it has received. If nothing is left, those are all
   * of its groups.
   */
  readonly position: Position
  /** The groups whose state comes next. Empty if the snapshot is complete. */
  readonly left: readonly string[]
  /** Whether the reader got a GAP event. */
  readonly hasGap: boolean
}

/** From where a reader continues if the feed alone is not enough. */
export type Start =
  /** It has no cursor yet. */
  | 'first'
  /** Something may have been missed in any group. */
  | 'gap'
  /** Something was missed in the groups whose record was written after a position. */
  | Position

/** A snapshot in progress. */
export interface SnapshotPart {
  /**
   * The groups whose state the reader has received, and the position up to which it has their changes. Undefined if
   * there are none yet.
   */
  readonly shown: { readonly groups: readonly string[]; readonly position: Position } | undefined
  /** The groups whose state it gets, in this order. */
  readonly left: readonly string[]
  readonly from: Start
  /** Whether a GAP event is not needed, or was already sent. */
  readonly hasGap: boolean
}

/** How many groups are read at once. */
const groupsAtOnce = 64
/**
 * The size limit of a part or a response, apart from its last events. A thousand groups with the longest texts would
 * take megabytes.
 */
export const mostBytes = 256 * 1024

/**
 * Returns the current state for a reader that has no cursor, or an outdated one. It comes in parts: each has the
 * changes since the previous part in the groups already sent, and the states of some more. Returns undefined if the
 * feed no longer has those changes.
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
    // Add changes that arrived while some states were being read, unless the state already includes them: no reader may
    // see an older state after a newer one.
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

/** Returns a function that tells whether the reader does not know a group's state. */
function wasMissed(from: Start, now: Position): (standing: GroupStanding) => boolean {
  if (from === 'first' || from === 'gap' || from.restores !== now.restores) return () => true
  return ({ seq }) => isWrittenAfter(seq, from)
}

function stateOf(group_id: string, standing: GroupStanding, wallMs: number): WatchedEvent {
  return { type: 'STATE', group_id, ...leadershipOf(standing, wallMs), ts_ms: wallMs }
}

/** Numbers the begin and the end of a group's terms in one order. */
function placeOf({ type, lease }: Change): number {
  return lease.term * 2 + (type === 'LEADER_LOST' ? 1 : 0)
}

function progressOf({ lease }: GroupStanding): number {
  return lease ? lease.term * 2 + (lease.ended ? 1 : 0) : 0
}
