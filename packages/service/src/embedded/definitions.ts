import { ServiceError } from '../errors.ts'
import type { Definition, GroupView, MemberView, Metadata, Page, PageOptions } from '../state.ts'
import type { Core } from './core.ts'
import type { Endings } from './endings.ts'
import { storedDefinition, type Group } from './group.ts'
import type { Members } from './members.ts'

/** Ids that one page may pass over: others wait meanwhile. */
const mostLooked = 10_000

/** Groups as people define, list and delete them, and who takes part. */
export class Definitions {
  readonly #core: Core
  readonly #endings: Endings
  readonly #members: Members

  constructor(core: Core, endings: Endings, members: Members) {
    this.#core = core
    this.#endings = endings
    this.#members = members
  }

  async define(
    groupId: string,
    definition: Definition,
    { replace }: { readonly replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    const group = this.#core.groups.get(groupId) ?? this.#core.create(groupId)
    try {
      while (group.busy) await this.#core.settled(group)
      if (this.#core.groups.get(groupId) !== group) return await this.define(groupId, definition, { replace })
      const before = group.deleted ? undefined : group.definition
      if (before && sameDefinition(before, definition)) return 'same'
      if (before && !replace) {
        throw new ServiceError('CONFLICT', `Group "${groupId}" exists with another definition. PUT changes it.`)
      }
      const stored = { ...this.#core.stored(group), ...storedDefinition(definition), deleted: undefined }
      return await this.#core.commit(group, stored, () => {
        group.definition = definition
        group.deleted = false
        return before ? 'replaced' : 'created'
      })
    } finally {
      this.#core.forgetIfEmpty(group)
    }
  }

  async group(groupId: string): Promise<GroupView> {
    return this.#view(this.#core.known(groupId))
  }

  async groups({ after, limit, isShown = () => true }: PageOptions): Promise<Page> {
    const page: Group[] = []
    let last = after
    let next: string | undefined
    let looked = 0
    for (const id of this.#core.disk.idsAfter(after)) {
      const group = this.#core.groups.get(id)
      const shown = group && !group.deleted && isShown(id) ? group : undefined
      // A full page looks on until there is something for the next one.
      if (looked === mostLooked || (shown && page.length === limit)) {
        next = last
        break
      }
      if (shown) page.push(shown)
      last = id
      looked += 1
    }
    const groups = await Promise.all(page.map((group) => this.#view(group)))
    return { groups, next, passedOver: looked - page.length }
  }

  async remove(groupId: string, { force }: { readonly force: boolean }): Promise<void> {
    let group = this.#core.known(groupId)
    while (group.busy) {
      await this.#core.settled(group)
      group = this.#core.known(groupId)
    }
    const { lease } = group
    const leftMs = lease && !lease.ended ? lease.expiresAtMs - this.#core.clock.monotonicMs() : 0
    if (leftMs > 0 && !force) {
      throw new ServiceError('CONFLICT', `Group "${groupId}" has a leader. Let it resign, or add ?force=true.`)
    }
    // Its lease has been promised to somebody: nobody else leads before it is over, also after a restart.
    const heldMs = leftMs > 0 ? (lease?.promisedMs ?? 0) : 0
    const nothing = { allowed: undefined, min: undefined, max: undefined, carry: undefined }
    const ended = { ...this.#core.stored(group), ...nothing, ended: true, deleted: true }
    await this.#core.commit(group, { ...ended, ...(heldMs > 0 && { heldMs }) }, () => {
      group.definition = undefined
      group.carry = ''
      group.deleted = true
      this.#members.forget(groupId)
      if (lease && leftMs > 0) group.hold = { untilMs: lease.expiresAtMs, heldMs }
      if (lease && !lease.ended) this.#endings.ended(lease, 'deleted')
    })
  }

  heartbeat(groupId: string, nodeId: string, metadata: Metadata): void {
    const group = this.#core.known(groupId)
    this.#core.checkAllowed(group, nodeId)
    this.#members.note(groupId, nodeId, metadata, this.#core.clock.wallMs())
  }

  async members(groupId: string): Promise<MemberView[]> {
    const group = this.#core.known(groupId)
    await this.#endings.settle(group)
    const { lease, definition } = group
    return this.#members.list(groupId, {
      allowed: definition?.allowedNodes ?? [],
      last: lease && { nodeId: lease.nodeId, metadata: lease.metadata, lastHeartbeatMs: lease.renewedAtMs },
      leaderId: lease && !lease.ended ? lease.nodeId : undefined,
      nowMs: this.#core.clock.wallMs(),
    })
  }

  async #view(group: Group): Promise<GroupView> {
    const { lease } = await this.#endings.settle(group)
    return {
      groupId: group.id,
      definition: group.definition ?? { policy: this.#core.options.policy, allowedNodes: undefined },
      explicit: group.definition !== undefined,
      highestTerm: group.term,
      lease,
    }
  }
}

function sameDefinition(one: Definition, other: Definition): boolean {
  return JSON.stringify(storedDefinition(one)) === JSON.stringify(storedDefinition(other))
}
