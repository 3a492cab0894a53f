import type { Group } from './group.ts'

/** How long something is kept of a group that has no leader, unless somebody leads it again. */
export interface EndedKept {
  readonly metadataMs: number
  readonly groupMs: number
}

export const endedKept: EndedKept = { metadataMs: 3_600_000, groupMs: 7 * 86_400_000 }

/** A write for each of them: a start finds all groups that ended before, and all are due at the same moment. */
const mostAtOnce = 1_000

/** Groups whose newest lease has ended, by the moment of that: those that ended first come first. */
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

  /** Those that ended long ago, and what of them goes. Each comes once for its metadata and once for the rest. */
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
