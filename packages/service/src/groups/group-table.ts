import { ServiceError } from '../common/errors.ts'
import type { RefusalData } from './port.ts'
import { GroupBytes } from './group-bytes.ts'
import { Group, type Hold } from './in-memory-group.ts'
import { OrderedIds } from './ordered-ids.ts'
import type { GroupMetrics } from './group-metrics.ts'
import { firstTerm } from '../storage/skipped-terms.ts'

/** All groups by id: those in the storage, and those that only exist while a request uses them. */
export class GroupTable {
  readonly #groups = new Map<string, Group>()
  readonly #keptIds = new OrderedIds()
  readonly #firstTerm: number
  readonly #maxGroups: number
  readonly #metrics: GroupMetrics | undefined
  readonly bytes: GroupBytes
  /** The hold that applies to every new group. */
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
    this.#metrics = shown
  }

  get(groupId: string): Group | undefined {
    return this.#groups.get(groupId)
  }

  values(): Iterable<Group> {
    return this.#groups.values()
  }

  /** The number of groups, not counting deleted ones, for which only the term is kept. */
  get count(): number {
    return this.#groups.size - this.#deleted
  }

  /** Why no more groups may be added. Undefined if there is room. */
  get noRoom(): RefusalData | undefined {
    if (this.count < this.#maxGroups) return undefined
    return { code: 'RATE_LIMITED', message: `This service is limited to ${this.#maxGroups} groups.`, details: {} }
  }

  /** Returns the group. Throws if it does not exist or was deleted. */
  getExisting(groupId: string): Group {
    const group = this.#groups.get(groupId)
    if (group && !group.deleted) return group
    throw new ServiceError('NOT_FOUND', `Group "${groupId}" does not exist.`)
  }

  /** Returns the group, and creates it if it does not exist. */
  getOrCreate(groupId: string): Group {
    const getExisting = this.#groups.get(groupId)
    if (getExisting) return getExisting
    const { noRoom } = this
    if (noRoom) throw new ServiceError(noRoom.code, noRoom.message)
    const group = new Group(groupId, this.#firstTerm)
    group.hold = this.hold
    this.#groups.set(groupId, group)
    return group
  }

  /** Adds a group that was loaded from the storage, in place of an earlier version of it. */
  add(group: Group): void {
    const known = this.#groups.get(group.id)
    if (known) {
      // A deleted group has no metrics, and from here on it is not even counted as deleted.
      this.setDeleted(known, true)
      this.#deleted -= 1
      this.bytes.forget(known)
    }
    this.#groups.set(group.id, group)
    this.#keptIds.add(group.id)
    if (group.deleted) this.#deleted += 1
    else this.#metrics?.add(group)
  }

  /** Records that the group is now in the storage. */
  keep(group: Group): void {
    this.#keptIds.add(group.id)
    this.#metrics?.add(group)
  }

  setDeleted(group: Group, deleted: boolean): void {
    if (group.deleted !== deleted) this.#deleted += deleted ? 1 : -1
    group.deleted = deleted
    if (deleted) this.#metrics?.remove(group)
  }

  /** Removes a group that was created for a request that had no effect. */
  forgetIfEmpty(group: Group): void {
    const used =
      group.lease || group.definition || group.pendingWrite || group.campaignQueue?.size || group.term > this.#firstTerm
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
