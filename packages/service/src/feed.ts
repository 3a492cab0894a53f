import type { LeaseView } from './state.ts'

/** Something that happened to a group's leadership. */
export interface Change {
  readonly type: 'LEADER_CHANGED' | 'LEADER_LOST' | 'RENEWED'
  readonly groupId: string
  /** As it was then. */
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
  /** As it is sent to streams, once somebody needed it. */
  frame?: Buffer
}

/**
 * The changes of all groups in one order, the newest of them kept for readers that come back. A cursor names the feed
 * too, because a restart begins another one: what was missed meanwhile is then told as a gap.
 */
export class Feed {
  readonly #id: string
  readonly #kept: Entry[] = []
  readonly #limit: number
  #start = 0
  #position = 0

  constructor(id: string, limit = 16_384) {
    this.#id = id
    this.#limit = limit
  }

  /** Of the newest change. */
  get position(): number {
    return this.#position
  }

  /** What a reader gives back to go on behind a position. */
  cursorAt(position: number): string {
    return `${this.#id}.${position}`
  }

  add(change: Change): Entry {
    this.#position += 1
    const entry: Entry = { position: this.#position, change }
    if (this.#kept.length < this.#limit) this.#kept.push(entry)
    else this.#kept[this.#start++ % this.#limit] = entry
    return entry
  }

  /** The position that a cursor names; a gap if it is of another feed; undefined if it was never given out. */
  find(cursor: string): number | 'gap' | undefined {
    const [, id, text] = /^([\w-]{8,32})\.(0|[1-9]\d{0,15})$/.exec(cursor) ?? []
    if (id === undefined) return undefined
    if (id !== this.#id) return 'gap'
    const position = Number(text)
    return position > this.#position ? undefined : position
  }

  /** Everything behind a position, in order; undefined if some of it is gone. */
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
