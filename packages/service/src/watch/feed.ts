import { Seal } from '../auth/seal.ts'
import type { Frame } from './frames.ts'
import type { LeaseView } from '../groups/groups.ts'

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
}

/** A change with its place in the feed. Renewals have none: they cannot be resumed. */
export interface Entry {
  readonly position: number
  readonly change: Change
  /** It had metadata or a carry. Those of ended terms that others have followed are kept nowhere. */
  readonly hadTexts: boolean
  /** As it is sent to streams. Kept after the first use if there are no texts in it. */
  frame?: Frame
}

const noTexts = { metadata: '{}', carry: '' }

/**
 * The changes of all groups in one order. The newest are kept for readers that come back. A cursor names the feed too,
 * because a restart begins another one: what was missed meanwhile is then reported as a gap. Its position is sealed,
 * since it would show how much happens in groups that the reader may not see.
 */
export class Feed {
  readonly #id: string
  readonly #kept: Entry[] = []
  readonly #limit: number
  /** Long enough for every safe integer. */
  readonly #seal = new Seal(16)
  #start = 0
  #position = 0
  /** The newest cursor: thousands of quiet streams get the same one. */
  #cursor: { readonly position: number; readonly text: string } | undefined

  constructor(id: string, limit = 16_384) {
    this.#id = id
    this.#limit = limit
  }

  /** The position of the newest change. */
  get position(): number {
    return this.#position
  }

  /** What a reader gives back to resume after a position. */
  cursorAt(position: number): string {
    if (this.#cursor?.position !== position) {
      this.#cursor = { position, text: `${this.#id}.${this.#seal.close(String(position))}` }
    }
    return this.#cursor.text
  }

  add(change: Change): Entry {
    this.#position += 1
    const { metadata, carry } = change.lease
    const hadTexts = metadata !== noTexts.metadata || carry !== noTexts.carry
    const kept = hadTexts ? { ...change, lease: { ...change.lease, ...noTexts } } : change
    const entry: Entry = { position: this.#position, change: kept, hadTexts }
    if (this.#kept.length < this.#limit) this.#kept.push(entry)
    else this.#kept[this.#start++ % this.#limit] = entry
    return entry
  }

  /** The position that a cursor names; a gap if it belongs to another feed; undefined if it was never given out. */
  find(cursor: string): number | 'gap' | undefined {
    // Cursors of the version before this one were numbers. They belong to another feed.
    const [, id, sealed] = /^([\w-]{8,32})\.([\w-]{59}|0|[1-9]\d{0,15})$/.exec(cursor) ?? []
    if (id === undefined || sealed === undefined) return undefined
    if (id !== this.#id) return 'gap'
    const position = this.#seal.open(sealed)
    return position === undefined ? undefined : Number(position)
  }

  /** Everything after a position, in order; undefined if some of it is gone. */
  after(position: number): Entry[] | undefined {
    const missing = this.#position - position
    const { length } = this.#kept
    if (missing > length) return undefined
    return Array.from(
      { length: missing },
      (_, index) => this.#kept[(this.#start + length - missing + index) % length] as Entry,
    )
  }
}
