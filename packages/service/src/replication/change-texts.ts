import type { LeaseView } from '../groups/groups.ts'
import type { Change } from '../watch/feed.ts'

type Texts = Pick<LeaseView, 'metadata' | 'carry'>

/** Approximate limit for all groups together. */
const mostBytes = 2 ** 24
const entryBytes = 200

/**
 * Metadata and checkpoint of each group's newest term, from its change event. A follower has no groups to look them up
 * in.
 */
export class ChangeTexts {
  readonly #byGroup = new Map<string, Texts & { readonly term: number; readonly bytes: number }>()
  #bytes = 0

  note({ type, groupId, lease: { term, metadata, carry } }: Change): void {
    if (type !== 'LEADER_CHANGED') return
    this.#drop(groupId)
    if (metadata === '{}' && carry === '') return
    const bytes = entryBytes + groupId.length + metadata.length + carry.length
    this.#byGroup.set(groupId, { term, metadata, carry, bytes })
    this.#bytes += bytes
    for (const oldest of this.#byGroup.keys()) {
      if (this.#bytes <= mostBytes) break
      this.#drop(oldest)
    }
  }

  of(groupId: string, wanted: number): Texts | undefined {
    const { term, metadata, carry } = this.#byGroup.get(groupId) ?? {}
    if (term !== wanted || metadata === undefined || carry === undefined) return undefined
    return { metadata, carry }
  }

  #drop(groupId: string): void {
    this.#bytes -= this.#byGroup.get(groupId)?.bytes ?? 0
    this.#byGroup.delete(groupId)
  }
}
