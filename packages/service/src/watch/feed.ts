import { keysFrom, Seal } from '../auth/seal.ts'
import type { LeaseView } from '../groups/groups.ts'
import { isAfter, positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'
import type { Frame } from './frames.ts'

/** A change of a group's leadership. */
export interface Change {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED'
  readonly groupId: string
  /** The lease at the time of the change. In the feed, without metadata and checkpoint. */
  readonly lease: LeaseView
  /** Set for `LEADER_LOST`. */
  readonly reason?: 'expired' | 'resigned' | 'deleted'
  /** In Unix milliseconds, for display only. */
  readonly atMs: number
  /** Set for a renewal: the subject that is charged for its deliveries. */
  readonly subject?: string | undefined
}

/** A change that is kept in the feed. Renewals are not kept, so they cannot be resumed. */
export interface KeptChange extends Change {
  readonly position: Position
}

/** A change with its position in the feed. */
export interface Entry {
  readonly position: Position
  readonly change: Change
  /** Whether it had metadata or a checkpoint. These texts are kept only for the newest term of a group. */
  readonly hadTexts: boolean
  /** The frame for streams. Kept after the first use if it contains no such texts. */
  frame?: Frame
}

const noTexts = { metadata: '{}', carry: '' }

/**
 * The changes of all groups in one order. The newest are kept for readers that reconnect. A cursor is a position in
 * that order, so it stays valid after a restart and on every replica. It is sealed, because it would reveal how much
 * happens in groups that the reader may not see.
 */
export class Feed {
  /** A ring buffer. The oldest entry is at `#start`. */
  readonly #kept: Entry[] = []
  readonly #limit: number
  readonly #seal: Seal
  #start = 0
  #position: Position
  /** All changes after this position are kept. */
  #complete: Position
  /** It is not known which changes there were before this position. */
  #begin: Position

  /**
   * `position` is the newest durable position when the groups were loaded. `secret` is the one in the storage's head.
   */
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
   * Returns the cursor with which a reader resumes after a position. It is sealed again for each response: equal
   * cursors would reveal that nothing happened in the groups that the reader may not see, and so how much did.
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

  /** Records that there were no other changes up to this position. */
  advance(position: Position): void {
    if (isAfter(position, this.#position)) this.#position = position
  }

  /** Records that the changes between the newest one and this position are not known. */
  skipTo(position: Position): void {
    this.#kept.length = 0
    this.#start = 0
    this.#complete = position
    this.#begin = position
    this.#position = position
  }

  /**
   * Returns the position of a cursor, which may be ahead of this feed. Returns 'gap' for a cursor of an earlier
   * version, and undefined if the cursor was not sealed with this secret.
   */
  find(cursor: string): Position | 'gap' | undefined {
    if (/^[\w-]{94}$/.test(cursor)) {
      const text = this.#seal.open(cursor)
      return text === undefined ? undefined : positionFrom(text)
    }
    // Those began with the id of a run.
    return /^[\w-]{8,32}\.([\w-]{59}|0|[1-9]\d{0,15})$/.test(cursor) ? 'gap' : undefined
  }

  /** Returns everything after a position, in order, or undefined if some of it is no longer kept. */
  after(position: Position): Entry[] | undefined {
    if (isAfter(this.#complete, position) || position.restores !== this.#position.restores) return undefined
    const { length } = this.#kept
    const at = (index: number) => this.#kept[(this.#start + index) % length] as Entry
    // Binary search for the first entry after it, because most readers come back for the newest.
    let low = 0
    let high = length
    while (low < high) {
      const middle = (low + high) >> 1
      if (isAfter(at(middle).position, position)) high = middle
      else low = middle + 1
    }
    return Array.from({ length: length - low }, (_, index) => at(low + index))
  }

  /** Returns the newest kept changes of some groups, up to `most`, in order. */
  newest(groupIds: ReadonlySet<string>, most: number): Entry[] {
    const { length } = this.#kept
    const found: Entry[] = []
    for (let index = length - 1; index >= 0 && found.length < most; index -= 1) {
      const entry = this.#kept[(this.#start + index) % length] as Entry
      if (groupIds.has(entry.change.groupId)) found.push(entry)
    }
    return found.toReversed()
  }

  /**
   * Returns whether the feed began, or was interrupted, after this position. Then a missing change is not the fault of
   * a slow reader.
   */
  isBefore(position: Position): boolean {
    return isAfter(this.#begin, position)
  }
}
