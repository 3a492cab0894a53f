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
export interface Entry extends Change {
  readonly sequence: number
}

export type Resumed = { readonly entries: readonly Entry[] } | { readonly gap: true }

/**
 * The changes of all groups in one order, the newest of them kept for readers that come back. A cursor names the feed
 * too, because a restart begins another one: what was missed meanwhile is then told as a gap.
 */
export class Feed {
  readonly #id: string
  readonly #kept: Entry[] = []
  readonly #limit: number
  #start = 0
  #sequence = 0

  constructor(id: string, limit = 16_384) {
    this.#id = id
    this.#limit = limit
  }

  /** Points behind the newest change. */
  get cursor(): string {
    return this.cursorAfter(this.#sequence)
  }

  cursorAfter(sequence: number): string {
    return `${this.#id}.${sequence}`
  }

  add(change: Change): Entry {
    this.#sequence += 1
    const entry = { ...change, sequence: this.#sequence }
    if (this.#kept.length < this.#limit) this.#kept.push(entry)
    else this.#kept[this.#start++ % this.#limit] = entry
    return entry
  }

  /** Everything after a cursor, or that something is missing. A cursor that was never given is `undefined`. */
  after(cursor: string): Resumed | undefined {
    const [id, text, ...rest] = cursor.split('.')
    if (text === undefined || rest.length > 0 || !/^(0|[1-9]\d{0,15})$/.test(text)) return undefined
    if (id !== this.#id) return /^[\w-]{8,32}$/.test(id ?? '') ? { gap: true } : undefined
    const sequence = Number(text)
    if (sequence > this.#sequence) return undefined
    const missing = this.#sequence - sequence
    if (missing > this.#kept.length) return { gap: true }
    const { length } = this.#kept
    const entries: Entry[] = []
    for (let index = length - missing; index < length; index++) {
      const entry = this.#kept[(this.#start + index) % length]
      if (entry) entries.push(entry)
    }
    return { entries }
  }
}
