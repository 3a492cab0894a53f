import type { Group } from './in-memory-group.ts'

/** How long the data of a group without a leader is kept, unless it gets a leader again. */
export interface Retention {
  readonly metadataMs: number
  readonly groupMs: number
}

export const defaultRetention: Retention = { metadataMs: 3_600_000, groupMs: 7 * 86_400_000 }

/**
 * How many groups are dropped at a time. Each costs a write, and after a start all groups that ended before are due at
 * the same moment.
 */
const maxAtOnce = 1_000

/** Groups whose newest lease has ended, ordered by when it ended, oldest first. */
export class EndedGroups {
  readonly #kept: Retention
  readonly #withMetadata = new Map<Group, number>()
  readonly #withoutMetadata = new Map<Group, number>()
  #startMs = 0

  constructor(kept: Retention = defaultRetention) {
    this.#kept = kept
  }

  /** Until now, the times of added groups were relative to 0. From now on they are relative to this moment. */
  start(nowMs: number): void {
    this.#startMs = nowMs
  }

  add(group: Group, nowMs: number): void {
    this.delete(group)
    this.#withMetadata.set(group, nowMs - this.#startMs)
  }

  delete(group: Group): void {
    this.#withMetadata.delete(group)
    this.#withoutMetadata.delete(group)
  }

  /**
   * Returns the groups that ended long ago, and which data to drop from each. A group is returned twice: first to drop
   * its metadata, and later to drop the rest.
   */
  takeDue(nowMs: number): (readonly [Group, 'metadata' | 'group'])[] {
    const due: (readonly [Group, 'metadata' | 'group'])[] = []
    const sinceStartMs = nowMs - this.#startMs
    for (const [group, sinceMs] of this.#withoutMetadata) {
      if (sinceStartMs - sinceMs < this.#kept.groupMs || due.length === maxAtOnce) break
      this.#withoutMetadata.delete(group)
      due.push([group, 'group'])
    }
    for (const [group, sinceMs] of this.#withMetadata) {
      if (sinceStartMs - sinceMs < this.#kept.metadataMs || due.length === maxAtOnce) break
      this.#withMetadata.delete(group)
      this.#withoutMetadata.set(group, sinceMs)
      due.push([group, 'metadata'])
    }
    return due
  }
}
