import { ServiceError } from '../errors.ts'
import type { RefusalData } from './groups.ts'
import { GroupBytes } from './group-bytes.ts'
import { Group, type Hold } from './group.ts'
import { OrderedIds } from './ordered-ids.ts'
import type { GroupMetrics } from './group-metrics.ts'

/** How many terms are skipped after each restore of a backup. */
export const skippedTerms = 1_000_000

/**
 * Returns the term that a group continues from. After a restored backup it is unknown which terms have been granted
 * since, so a great many are skipped, in each group above its own term.
 */
export function firstTerm(restores: number, term = 0): number {
  return Math.min(term + restores * skippedTerms, Number.MAX_SAFE_INTEGER)
}

/** All groups by id: those in the storage, and those that only exist while a request uses them. */
export class GroupTable {
  readonly #groups = new Map<string, Group>()
  readonly #keptIds = new OrderedIds()
  readonly #firstTerm: number
  readonly #maxGroups: number
  readonly #shown: GroupMetrics | undefined
  readonly bytes: GroupBytes
  /** The hold of every new group. */
  hold: Hold | undefined
  #deleted = 0

  constructor(
    restores: number,
    maxGroups: number,
    { shown, bytes = new GroupBytes(Infinity, 0) }: { readonly shown?: GroupMetrics; readonly bytes?: GroupBytes } = {},
  ) {
    this.#firstTerm = firstTerm(restores)
    this.bytes = bytes
    this.#maxGroups = maxGroups
    this.#shown = shown
  }

  get(groupId: string): Group | undefined {
    return this.#groups.get(groupId)
  }

  values(): Iterable<Group> {
    return this.#groups.values()
  }

  /** The number of groups, without deleted ones, of which only the term is kept. */
  get count(): number {
    return this.#groups.size - this.#deleted
  }

  /** Why no more groups may be added. Undefined if there is room. */
  get noRoom(): RefusalData | undefined {
    if (this.count < this.#maxGroups) return undefined
    return { code: 'RATE_LIMITED', message: `This service is limited to ${this.#maxGroups} groups.`, details: {} }
  }

  /** Returns the group. Throws if it does not exist or was deleted. */
  known(groupId: string): Group {
    const group = this.#groups.get(groupId)
    if (group && !group.deleted) return group
    throw new ServiceError('NOT_FOUND', `Group "${groupId}" does not exist.`)
  }

  /** Returns the group, and creates it if it does not exist. */
  have(groupId: string): Group {
    const known = this.#groups.get(groupId)
    if (known) return known
    const { noRoom } = this
    if (noRoom) throw new ServiceError(noRoom.code, noRoom.message)
    const group = new Group(groupId, this.#firstTerm)
    group.hold = this.hold
    this.#groups.set(groupId, group)
    return group
  }

  /** Adds a group that was loaded from the storage. */
  add(group: Group): void {
    this.#groups.set(group.id, group)
    this.#keptIds.add(group.id)
    if (group.deleted) this.#deleted += 1
    else this.#shown?.add(group)
  }

  /** Records that the storage has the group from now on. */
  keep(group: Group): void {
    this.#keptIds.add(group.id)
    this.#shown?.add(group)
  }

  setDeleted(group: Group, deleted: boolean): void {
    if (group.deleted !== deleted) this.#deleted += deleted ? 1 : -1
    group.deleted = deleted
    if (deleted) this.#shown?.remove(group)
  }

  /** Removes a group that was created for a request without effect. */
  forgetIfEmpty(group: Group): void {
    const used = group.lease || group.definition || group.writing || group.line?.size || group.term > this.#firstTerm
    if (used || this.#groups.get(group.id) !== group) return
    this.setDeleted(group, false)
    this.bytes.forget(group)
    this.#groups.delete(group.id)
  }

  /** Returns the ids of stored groups in order, including deleted ones. */
  idsAfter(groupId: string | undefined, most: number): string[] {
    return this.#keptIds.after(groupId, most)
  }
}
