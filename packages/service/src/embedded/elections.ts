import { ServiceError } from '../errors.ts'
import type { CampaignClaim, HeldClaim, MaybePromise, RenewClaim, Verdict } from '../state.ts'
import type { Core } from './core.ts'
import type { Endings } from './endings.ts'
import { Lease, noMetadata, type Group, type Waiter } from './group.ts'
import { firstInLine, leaveLine, waitInLine } from './line.ts'
import type { Members } from './members.ts'

const nothing: Verdict = { granted: false, lease: undefined, highestTerm: 0, freeInMs: 0 }

/** Who leads: campaign, renew, resign. */
export class Elections {
  readonly #core: Core
  readonly #endings: Endings
  readonly #members: Members
  /** Writes under way that lengthen a lease or change its carry. */
  readonly #adding = new WeakMap<Group, Promise<unknown>>()

  constructor(core: Core, endings: Endings, members: Members) {
    this.#core = core
    this.#endings = endings
    this.#members = members
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<Verdict> {
    const { clock } = this.#core
    const deadlineMs = clock.monotonicMs() + claim.waitMs
    let place: Waiter | undefined
    const group = this.#groupFor(claim.groupId)
    try {
      for (;;) {
        while (group.busy) await this.#core.settled(group)
        const nowMs = clock.monotonicMs()
        // It was forgotten while this one waited for a write that failed: another one of that name has taken its place.
        if (this.#core.groups.get(claim.groupId) !== group) {
          return await this.campaign({ ...claim, waitMs: Math.max(0, deadlineMs - nowMs) }, signal)
        }
        // What was so when it came may have changed while it waited.
        if (!this.#core.options.implicitGroups) this.#core.known(claim.groupId)
        if (signal.aborted) return await this.#endings.settle(group)
        this.#core.checkAllowed(group, claim.nodeId)
        this.#checkTtl(group, 'lease_ttl_ms', claim.ttlMs)
        const { lease } = group
        if (lease?.isLive(nowMs)) {
          // The same candidacy gets its term back, and nothing more.
          if (lease.attempt === claim.attempt && lease.nodeId === claim.nodeId) return await this.#confirm(group)
        } else {
          const outdated = claim.afterTerm !== undefined && group.term > claim.afterTerm
          const used = claim.attemptIsOnce && lease?.attempt === claim.attempt
          if (outdated || used) return await this.#endings.settle(group)
          const first = firstInLine(group)
          const turn = first === undefined || first === place
          if (turn && group.freeInMs(nowMs) === 0) return await this.#grant(group, claim)
        }
        if (nowMs >= deadlineMs) {
          this.#members.note(group.id, claim.nodeId, claim.metadata, clock.wallMs())
          return await this.#endings.settle(group)
        }
        place = await waitInLine(group, place, { clock, deadlineMs, signal })
      }
    } finally {
      if (place) leaveLine(group, place)
      this.#core.forgetIfEmpty(group)
    }
  }

  renew(claim: RenewClaim): MaybePromise<Verdict> {
    const group = this.#core.groups.get(claim.groupId)
    if (!group) return nothing
    const later = () => this.#core.settled(group).then(() => this.renew(claim))
    // A write that only adds to the lease takes nothing away from it: what needs no disk need not wait for that one.
    if (group.busy && group.busy !== this.#adding.get(group)) return later()
    const { lease } = group
    const nowMs = this.#core.clock.monotonicMs()
    if (!lease || !this.#matches(lease, claim) || !lease.isLive(nowMs)) return this.#endings.settle(group)
    const { extendByMs, carry } = claim
    this.#checkTtl(group, 'extend_by_ms', extendByMs)
    const untilMs = nowMs + extendByMs
    const longer = extendByMs > lease.promisedMs
    const written = longer || (carry !== undefined && carry !== group.carry) || this.#core.isDoubtful(group)
    if (!written) return this.#renewed(lease, extendByMs, untilMs)
    return group.busy ? later() : this.#renewOnDisk(lease, claim, untilMs)
  }

  async resign(claim: HeldClaim): Promise<Verdict> {
    const group = this.#core.groups.get(claim.groupId)
    if (!group) return nothing
    while (group.busy) await this.#core.settled(group)
    const { lease } = group
    if (!lease || lease.nodeId !== claim.nodeId || lease.term !== claim.term) return this.#endings.settle(group)
    if (claim.version !== undefined || claim.attempt !== undefined) {
      if (!this.#matches(lease, claim) || !lease.isLive(this.#core.clock.monotonicMs())) {
        return this.#endings.settle(group)
      }
    }
    if (!lease.ended) await this.#endings.end(lease, 'resigned')
    return this.#core.verdict(group, true)
  }

  leader(groupId: string): MaybePromise<Verdict> {
    const group = this.#core.groups.get(groupId)
    if (!group) return nothing
    const { lease } = group
    const known = !lease || lease.ended || lease.isLive(this.#core.clock.monotonicMs())
    return known && !group.busy ? this.#core.verdict(group, true) : this.#endings.settle(group)
  }

  #groupFor(groupId: string): Group {
    if (!this.#core.options.implicitGroups) return this.#core.known(groupId)
    return this.#core.groups.get(groupId) ?? this.#core.create(groupId)
  }

  #checkTtl(group: Group, field: string, ttlMs: number): void {
    const { minTtlMs, maxTtlMs } = group.definition?.policy ?? this.#core.options.policy
    if (ttlMs >= minTtlMs && ttlMs <= maxTtlMs) return
    throw new ServiceError(
      'INVALID_TTL',
      `${field} is ${ttlMs}; group "${group.id}" takes ${minTtlMs} to ${maxTtlMs}.`,
      { details: { min_ttl_ms: minTtlMs, max_ttl_ms: maxTtlMs } },
    )
  }

  #matches(lease: Lease, claim: HeldClaim): boolean {
    return (
      lease.nodeId === claim.nodeId &&
      lease.term === claim.term &&
      (claim.attempt === undefined || lease.attempt === claim.attempt) &&
      (claim.version === undefined || this.#core.versionOf(lease) === claim.version)
    )
  }

  async #grant(group: Group, claim: CampaignClaim): Promise<Verdict> {
    const { clock } = this.#core
    const term = Math.max(group.term, claim.afterTerm ?? 0) + 1
    if (!Number.isSafeInteger(term)) throw new ServiceError('CONFLICT', `Group "${group.id}" has used its last term.`)
    // Burnt from here on, whatever becomes of the write.
    group.term = term
    const lease = new Lease(group, {
      term,
      nodeId: claim.nodeId,
      attempt: claim.attempt,
      metadata: Object.keys(claim.metadata).length > 0 ? claim.metadata : noMetadata,
      acquiredAtMs: clock.wallMs(),
      ttlMs: claim.ttlMs,
      expiresAtMs: Infinity,
    })
    const { ended: _ended, heldMs: _heldMs, deleted: _deleted, ...stored } = this.#core.stored(group, lease)
    return this.#core.commit(group, stored, () => {
      const before = group.lease
      if (before && !before.ended) this.#endings.ended(before, 'expired')
      // From now, not from the campaign: it may have waited in line, and its sender counts from what it sent.
      lease.expiresAtMs = clock.monotonicMs() + claim.ttlMs
      group.deleted = false
      group.hold = undefined
      group.lease = lease
      this.#endings.watch(lease)
      this.#core.tell('LEADER_CHANGED', lease)
      return this.#core.verdict(group, true)
    })
  }

  /** The holder is told that it still leads. */
  async #confirm(group: Group): Promise<Verdict> {
    if (!this.#core.isDoubtful(group)) return this.#core.verdict(group, true)
    return this.#core.commit(group, this.#core.stored(group), () => this.#core.verdict(group, true))
  }

  /** A promise that is longer than the disk knows must survive a crash, and so must a carry. */
  async #renewOnDisk(lease: Lease, { extendByMs, carry }: RenewClaim, untilMs: number): Promise<Verdict> {
    const { group } = lease
    const promisedMs = Math.max(lease.promisedMs, extendByMs)
    const stored = { ...this.#core.stored(group), ttl: promisedMs, ...(carry !== undefined && { carry }) }
    const committing = this.#core.commit(group, stored, () => {
      lease.promisedMs = promisedMs
      if (carry !== undefined) group.carry = carry
      return this.#renewed(lease, extendByMs, untilMs)
    })
    if (group.busy) this.#adding.set(group, group.busy)
    return committing
  }

  #renewed(lease: Lease, ttlMs: number, untilMs: number): Verdict {
    // Never sooner than was promised before.
    lease.expiresAtMs = Math.max(lease.expiresAtMs, untilMs)
    lease.ttlMs = ttlMs
    lease.renewedAtMs = this.#core.clock.wallMs()
    lease.renewals += 1
    this.#core.tellRenewed(lease)
    return this.#core.verdict(lease.group, true)
  }
}
