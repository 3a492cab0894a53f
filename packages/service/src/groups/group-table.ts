import { ServiceError } from '../errors.ts'
import type { RefusalData } from './groups.ts'
import { GroupBytes } from './group-bytes.ts'
import { Group, type Hold } from './group.ts'
import { OrderedIds } from './ordered-ids.ts'
import type { ShownGroups } from './shown-groups.ts'

/** After a restored backup, each time. */
export const skippedTerms = 1_000_000

/**
 * The term that a group counts on from. After a restored backup nobody knows which terms have been granted since, so a
 * great many are skipped, in each group above its own.
 */
export function firstTerm(restores: number, term = 0): number {
  return Math.min(term + restores * skippedTerms, Number.MAX_SAFE_INTEGER)
}

/** All groups by id: those that are kept, and those about which somebody is just asking. */
export class GroupTable {
  readonly #groups = new Map<string, Group>()
  readonly #keptIds = new OrderedIds()
  readonly #firstTerm: number
  readonly #maxGroups: number
  readonly #shown: ShownGroups | undefined
  readonly bytes: GroupBytes
  /** Of every group that comes into being. */
  hold: Hold | undefined
  #deleted = 0

  constructor(
    restores: number,
    maxGroups: number,
    { shown, bytes = new GroupBytes(Infinity, 0) }: { readonly shown?: ShownGroups; readonly bytes?: GroupBytes } = {},
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

  /** Of deleted groups only the terms are kept; they do not count. */
  get count(): number {
    return this.#groups.size - this.#deleted
  }

  /** Why no further group may be kept. */
  get noRoom(): RefusalData | undefined {
    if (this.count < this.#maxGroups) return undefined
    return { code: 'RATE_LIMITED', message: `This service keeps at most ${this.#maxGroups} groups.`, details: {} }
  }

  /** Throws unless the group is there for those who look. */
  known(groupId: string): Group {
    const group = this.#groups.get(groupId)
    if (group && !group.deleted) return group
    throw new ServiceError('NOT_FOUND', `There is no group "${groupId}".`)
  }

  /** The group, whether it was there before or not. */
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

  /** Takes in a group that the storage has. */
  add(group: Group): void {
    this.#groups.set(group.id, group)
    this.#keptIds.add(group.id)
    if (group.deleted) this.#deleted += 1
    else this.#shown?.add(group)
  }

  /** The storage has the group from now on. */
  keep(group: Group): void {
    this.#keptIds.add(group.id)
    this.#shown?.add(group)
  }

  setDeleted(group: Group, deleted: boolean): void {
    if (group.deleted !== deleted) this.#deleted += deleted ? 1 : -1
    group.deleted = deleted
    if (deleted) this.#shown?.remove(group)
  }

  /** What came to nothing leaves no group behind. */
  forgetIfEmpty(group: Group): void {
    const used = group.lease || group.definition || group.writing || group.line?.size || group.term > this.#firstTerm
    if (used || this.#groups.get(group.id) !== group) return
    this.setDeleted(group, false)
    this.bytes.forget(group)
    this.#groups.delete(group.id)
  }

  /** Those that the storage has, in order; deleted ones too. */
  idsAfter(groupId: string | undefined, most: number): string[] {
    return this.#keptIds.after(groupId, most)
  }
}
