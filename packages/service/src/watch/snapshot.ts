import type { WatchedEvent } from '../schemas/watch.ts'
import type { Clock } from 'tenure'
import { leadershipOf } from '../schemas/views.ts'
import type { GroupChange, Groups, GroupState } from '../groups/port.ts'
import { isWrittenAfter, type Position } from '../storage/position.ts'
import type { Hub } from './hub.ts'

/** All or some of the events that a reader gets before any new changes. */
export interface Snapshot {
  /** The events as JSON. */
  readonly events: readonly string[]
  /**
   * The reader has all changes up to this position, in the groups whose state it has received. If no groups are left,
   * those are all of its groups.
   */
  readonly position: Position
  /** The groups whose state is sent next. Empty if the snapshot is complete. */
  readonly left: readonly string[]
  /** Whether the reader got a GAP event. */
  readonly hasGap: boolean
}

/** Where a reader continues if the feed alone is not sufficient. */
export type SnapshotStart =
  /** The reader has no cursor yet. */
  | 'first'
  /** The reader may have missed changes in any group. */
  | 'gap'
  /** The reader missed changes in the groups whose record was written after this position. */
  | Position

/** A snapshot in progress. */
export interface SnapshotPart {
  /**
   * The groups whose state the reader has received, and the position up to which it has their changes. Undefined if
   * there are none yet.
   */
  readonly shown: { readonly groups: readonly string[]; readonly position: Position } | undefined
  /** The groups whose state the reader gets next, in this order. */
  readonly left: readonly string[]
  readonly from: SnapshotStart
  /** Whether a GAP event is not needed, or was already sent. */
  readonly hasGap: boolean
}

/** The source of a snapshot. */
interface SnapshotSource {
  readonly hub: Hub
  readonly state: Groups
  readonly clock: Clock
}

/** How many groups are read at once. */
const groupsAtOnce = 64
/**
 * The size limit of a part or a response, not counting its last events. A thousand groups with the longest strings
 * would take megabytes.
 */
export const maxBytes = 256 * 1024

/**
 * Returns the current state for a reader that has no cursor, or an outdated one. It comes in parts. Each part has the
 * states of some groups, and the changes since the previous part in the groups that were already sent. Returns
 * undefined if the feed no longer has those changes.
 */
export async function takeSnapshot(
  { hub, state, clock }: SnapshotSource,
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
    const texts = new EventTexts()
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
class EventTexts {
  readonly all: string[] = []
  #bytes = 0

  get isFull(): boolean {
    return this.#bytes >= maxBytes
  }

  add(event: WatchedEvent): void {
    const json = JSON.stringify(event)
    this.all.push(json)
    this.#bytes += Buffer.byteLength(json)
  }
}

/** Returns a predicate that is true for groups whose newest state the reader may not know. */
function wasMissed(from: SnapshotStart, now: Position): (standing: GroupState) => boolean {
  if (from === 'first' || from === 'gap' || from.restores !== now.restores) return () => true
  return ({ seq }) => isWrittenAfter(seq, from)
}

function stateOf(group_id: string, standing: GroupState, wallMs: number): WatchedEvent {
  return { type: 'STATE', group_id, ...leadershipOf(standing, wallMs), ts_ms: wallMs }
}

/** Returns a number that orders the starts and ends of a group's terms. */
function placeOf({ type, lease }: GroupChange): number {
  return lease.term * 2 + (type === 'LEADER_LOST' ? 1 : 0)
}

function progressOf({ lease, highestTerm }: GroupState): number {
  // A deleted group does not show its last lease.
  return lease ? lease.term * 2 + (lease.ended ? 1 : 0) : highestTerm * 2 + 1
}
