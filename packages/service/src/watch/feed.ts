import { keysFrom, Seal } from '../auth/seal.ts'
import type { LeaseView } from '../groups/groups.ts'
import { isAfter, positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'
import type { Frame } from './frames.ts'

/** A change of a group's leadership. */
export interface Change {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED'
  readonly groupId: string
  /** As it was then; in the feed, without metadata and carry. */
  readonly lease: LeaseView
  /** Of `LEADER_LOST`. */
  readonly reason?: 'expired' | 'resigned' | 'deleted'
  /** Unix time, for people. */
  readonly atMs: number
  /** Of a renewal: who is charged for telling of it. */
  readonly subject?: string | undefined
}

/** A change that is kept. Renewals are not: they cannot be resumed. */
export interface KeptChange extends Change {
  readonly position: Position
}

/** A change with its place in the feed. */
export interface Entry {
  readonly position: Position
  readonly change: Change
  /** It had metadata or a carry. Those of ended terms that others have followed are kept nowhere. */
  readonly hadTexts: boolean
  /** As it is sent to streams. Kept after the first use if there are no texts in it. */
  frame?: Frame
}

const noTexts = { metadata: '{}', carry: '' }

/**
 * The changes of all groups in one order. The newest are kept for readers that come back. A cursor is a position in
 * that order, so it outlives the process, and every replica knows it. It is sealed, since it would show how much happens
 * in groups that the reader may not see.
 */
export class Feed {
  /** A ring; the oldest entry is at `#start`. */
  readonly #kept: Entry[] = []
  readonly #limit: number
  readonly #seal: Seal
  #start = 0
  #position: Position
  /** All changes after this are kept. */
  #complete: Position
  /** Before this, it is not known which changes there were. */
  #begin: Position

  /** `position` is what was durable when the groups were read. `secret` is the one beside the head. */
  constructor({ secret, position, limit = 16_384 }: { secret: string; position: Position; limit?: number }) {
    this.#seal = new Seal(keysFrom(secret, 'cursors'), positionLength)
    this.#position = position
    this.#complete = position
    this.#begin = position
    this.#limit = limit
  }

  /** The position of the newest change. */
  get position(): Position {
    return this.#position
  }

  /**
   * What a reader gives back to resume after a position. It is sealed again for each answer: equal cursors would show a
   * reader that nothing happened in the groups that it may not see, and so how much did.
   */
  cursorAt(position: Position): string {
    return this.#seal.close(textOf(position))
  }

  add({ position, ...change }: KeptChange): Entry {
    const { metadata, carry } = change.lease
    const hadTexts = metadata !== noTexts.metadata || carry !== noTexts.carry
    const kept = hadTexts ? { ...change, lease: { ...change.lease, ...noTexts } } : change
    const entry: Entry = { position, change: kept, hadTexts }
    if (this.#kept.length < this.#limit) this.#kept.push(entry)
    else {
      const oldest = this.#kept[this.#start] as Entry
      this.#complete = oldest.position
      this.#kept[this.#start] = entry
      this.#start = (this.#start + 1) % this.#limit
    }
    this.#position = position
    return entry
  }

  /** Nothing happened up to here beside what is kept. */
  advance(position: Position): void {
    if (isAfter(position, this.#position)) this.#position = position
  }

  /** What happened between the newest change and this position is not known. */
  skipTo(position: Position): void {
    this.#kept.length = 0
    this.#start = 0
    this.#complete = position
    this.#begin = position
    this.#position = position
  }

  /**
   * The position that a cursor names, which may be ahead of this feed; a gap for one of an earlier version; undefined if
   * nobody who knows the secret gave it out.
   */
  find(cursor: string): Position | 'gap' | undefined {
    if (/^[\w-]{94}$/.test(cursor)) {
      const text = this.#seal.open(cursor)
      return text === undefined ? undefined : positionFrom(text)
    }
    // Those began with the name of a run.
    return /^[\w-]{8,32}\.([\w-]{59}|0|[1-9]\d{0,15})$/.test(cursor) ? 'gap' : undefined
  }

  /** Everything after a position, in order; undefined if some of it is gone. */
  after(position: Position): Entry[] | undefined {
    if (isAfter(this.#complete, position) || position.restores !== this.#position.restores) return undefined
    const { length } = this.#kept
    const at = (index: number) => this.#kept[(this.#start + index) % length] as Entry
    // The first one after it, by halving: most readers come back for the newest.
    let low = 0
    let high = length
    while (low < high) {
      const middle = (low + high) >> 1
      if (isAfter(at(middle).position, position)) high = middle
      else low = middle + 1
    }
    return Array.from({ length: length - low }, (_, index) => at(low + index))
  }

  /** The newest changes of some groups that are kept, up to a number of them, in order. */
  newest(groupIds: ReadonlySet<string>, most: number): Entry[] {
    const { length } = this.#kept
    const found: Entry[] = []
    for (let index = length - 1; index >= 0 && found.length < most; index -= 1) {
      const entry = this.#kept[(this.#start + index) % length] as Entry
      if (groupIds.has(entry.change.groupId)) found.push(entry)
    }
    return found.toReversed()
  }

  /** Whether the feed began after a position, or was broken off: not the reader was too slow. */
  isBefore(position: Position): boolean {
    return isAfter(this.#begin, position)
  }
}
