import type { Group } from './group.ts'

/** How long the data of a group without a leader is kept, unless it gets a leader again. */
export interface EndedKept {
  readonly metadataMs: number
  readonly groupMs: number
}

export const endedKept: EndedKept = { metadataMs: 3_600_000, groupMs: 7 * 86_400_000 }

/** Each one costs a write. After a start, all groups that ended before are due at the same moment. */
const mostAtOnce = 1_000

/** Groups whose newest lease has ended, ordered by when it ended, oldest first. */
export class EndedGroups {
  readonly #kept: EndedKept
  readonly #withMetadata = new Map<Group, number>()
  readonly #withoutMetadata = new Map<Group, number>()

  constructor(kept: EndedKept = endedKept) {
    this.#kept = kept
  }

  add(group: Group, nowMs: number): void {
    this.delete(group)
    this.#withMetadata.set(group, nowMs)
  }

  delete(group: Group): void {
    this.#withMetadata.delete(group)
    this.#withoutMetadata.delete(group)
  }

  /**
   * Returns the groups that ended long ago, and what to drop of each. Each group comes once for its metadata and once
   * for the rest.
   */
  takeDue(nowMs: number): (readonly [Group, 'metadata' | 'group'])[] {
    const due: (readonly [Group, 'metadata' | 'group'])[] = []
    for (const [group, sinceMs] of this.#withoutMetadata) {
      if (nowMs - sinceMs < this.#kept.groupMs || due.length === mostAtOnce) break
      this.#withoutMetadata.delete(group)
      due.push([group, 'group'])
    }
    for (const [group, sinceMs] of this.#withMetadata) {
      if (nowMs - sinceMs < this.#kept.metadataMs || due.length === mostAtOnce) break
      this.#withMetadata.delete(group)
      this.#withoutMetadata.set(group, sinceMs)
      due.push([group, 'metadata'])
    }
    return due
  }
}
