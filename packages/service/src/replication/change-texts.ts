import type { GroupChange, LeaseView } from '../groups/port.ts'

type ChangeTextPair = Pick<LeaseView, 'metadata' | 'checkpoint'>

/** Approximate limit for all groups together. */
const maxBytes = 2 ** 24
const entryBytes = 200

/**
 * Metadata and checkpoint of each group's newest term, from its change event. A follower has no groups to look them up
 * in.
 */
export class ChangeTexts {
  readonly #byGroup = new Map<string, ChangeTextPair & { readonly term: number; readonly bytes: number }>()
  #bytes = 0

  note({ type, groupId, lease: { term, metadata, checkpoint } }: GroupChange): void {
    if (type !== 'LEADER_CHANGED') return
    this.#drop(groupId)
    if (metadata === '{}' && checkpoint === '') return
    const bytes = entryBytes + groupId.length + metadata.length + checkpoint.length
    this.#byGroup.set(groupId, { term, metadata, checkpoint, bytes })
    this.#bytes += bytes
    for (const oldest of this.#byGroup.keys()) {
      if (this.#bytes <= maxBytes) break
      this.#drop(oldest)
    }
  }

  of(groupId: string, wanted: number): ChangeTextPair | undefined {
    const { term, metadata, checkpoint } = this.#byGroup.get(groupId) ?? {}
    if (term !== wanted || metadata === undefined || checkpoint === undefined) return undefined
    return { metadata, checkpoint }
  }

  #drop(groupId: string): void {
    this.#bytes -= this.#byGroup.get(groupId)?.bytes ?? 0
    this.#byGroup.delete(groupId)
  }
}
