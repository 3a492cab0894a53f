import { deriveKeys, Seal } from '../common/seal.ts'
import type { GroupChange, KeptChange } from '../groups/port.ts'
import { isAfter, positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'
import type { Frame } from './frames.ts'

/** A change with its position in the feed. */
export interface FeedEntry {
  readonly position: Position
  readonly change: GroupChange
  /** Whether the lease had metadata or a checkpoint. They are kept only for a group's newest term. */
  readonly hadTexts: boolean
  /** The frame for streams. It is cached after the first use if it contains neither of these. */
  frame?: Frame
}

const noTexts = { metadata: '{}', checkpoint: '' }

/**
 * The changes of all groups in one order. The newest are kept for readers that reconnect. A cursor is a position in
 * that order, so it stays valid after a restart and on every replica. It is sealed, because it would otherwise reveal
 * how busy the groups are that the reader may not see.
 */
export class Feed {
  /** A ring buffer. The oldest entry is at `#start`. */
  readonly #kept: FeedEntry[] = []
  readonly #limit: number
  readonly #seal: Seal
  #start = 0
  #position: Position
  /** All changes after this position are kept. */
  #complete: Position
  /** Changes before this position are not known. */
  #begin: Position

  /**
   * `position` is the newest durable position when the groups were loaded. `secret` is the one in the storage's head.
   */
  constructor({ secret, position, limit = 16_384 }: { secret: string; position: Position; limit?: number }) {
    this.#seal = new Seal(deriveKeys(secret, 'cursors'), positionLength)
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
   * Returns the cursor with which a reader resumes after a position. It is sealed again for each response, because
   * comparing cursors would reveal how busy the groups are that the reader may not see.
   */
  cursorAt(position: Position): string {
    return this.#seal.close(textOf(position))
  }

  add({ position, ...change }: KeptChange): FeedEntry {
    const { metadata, checkpoint } = change.lease
    const hadTexts = metadata !== noTexts.metadata || checkpoint !== noTexts.checkpoint
    const kept = hadTexts ? { ...change, lease: { ...change.lease, ...noTexts } } : change
    const entry: FeedEntry = { position, change: kept, hadTexts }
    if (this.#kept.length < this.#limit) this.#kept.push(entry)
    else {
      const oldest = this.#kept[this.#start] as FeedEntry
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

  /** Records that changes between the newest one and this position may be missing. */
  skipTo(position: Position): void {
    this.#kept.length = 0
    this.#start = 0
    this.#complete = position
    this.#begin = position
    this.#position = position
  }

  /**
   * Returns the position of a cursor, which may be ahead of this feed. Returns undefined if the cursor was not sealed
   * with this secret.
   */
  find(cursor: string): Position | undefined {
    const text = /^[\w-]{94}$/.test(cursor) ? this.#seal.open(cursor) : undefined
    return text === undefined ? undefined : positionFrom(text)
  }

  /** Returns everything after a position, in order, or undefined if some of it is no longer kept. */
  after(position: Position): FeedEntry[] | undefined {
    if (isAfter(this.#complete, position) || position.restores !== this.#position.restores) return undefined
    const { length } = this.#kept
    const at = (index: number) => this.#kept[(this.#start + index) % length] as FeedEntry
    // Binary search for the first entry after the position, because most readers come back for the newest entries.
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
  newest(groupIds: ReadonlySet<string>, most: number): FeedEntry[] {
    const { length } = this.#kept
    const found: FeedEntry[] = []
    for (let index = length - 1; index >= 0 && found.length < most; index -= 1) {
      const entry = this.#kept[(this.#start + index) % length] as FeedEntry
      if (groupIds.has(entry.change.groupId)) found.push(entry)
    }
    return found.toReversed()
  }

  /**
   * Returns whether the feed began, or was interrupted, after this position. If so, a missing change is not the fault
   * of a slow reader.
   */
  isBefore(position: Position): boolean {
    return isAfter(this.#begin, position)
  }
}
