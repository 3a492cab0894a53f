import type { Clock, Timer } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { Change } from '../feed.ts'
import type {
  CampaignClaim,
  Definition,
  ElectionState,
  Follower,
  GroupView,
  HeldClaim,
  MaybePromise,
  MemberView,
  Metadata,
  Policy,
  RenewClaim,
  Verdict,
} from '../state.ts'
import { Disk, type Stored } from './disk.ts'
import { ExpiryQueue } from './expiry-queue.ts'
import { Group, Lease, storedOf, viewOf, type Waiter } from './group.ts'
import { Members } from './members.ts'

/** What {@link EmbeddedState.open} takes. */
export interface EmbeddedStateOptions {
  readonly directory: string
  readonly clock: Clock
  /** For groups that nobody defined. */
  readonly policy: Policy
  /** Whether a campaign brings a group into being. */
  readonly implicitGroups: boolean
  readonly maxGroups: number
  readonly maxMembersPerGroup: number
  readonly memberTtlMs: number
  /** The data come from a backup: skip all terms that may have been granted since. */
  readonly afterRestore: boolean
}

const retryMs = 1_000

/** Groups in memory, with a disk below that knows all that must survive a crash. */
export class EmbeddedState implements ElectionState {
  readonly clusterId: string
  readonly #disk: Disk
  readonly #clock: Clock
  readonly #options: EmbeddedStateOptions
  readonly #groups = new Map<string, Group>()
  readonly #expiries = new ExpiryQueue<Lease>()
  readonly #members: Members
  readonly #followers = new Set<Follower>()
  /** Versions of one run differ from those of every other. */
  readonly #run: string
  #termFloor: number
  #timer: { readonly atMs: number; readonly timer: Timer } | undefined
  #closed = false

  private constructor(disk: Disk, options: EmbeddedStateOptions, termFloor: number) {
    this.#disk = disk
    this.#clock = options.clock
    this.#options = options
    this.#members = new Members(options)
    this.#run = options.clock.randomId()
    this.#termFloor = termFloor
    this.clusterId = disk.clusterId
  }

  static async open(options: EmbeddedStateOptions): Promise<EmbeddedState> {
    const disk = await Disk.open(options.directory, () => options.clock.randomId())
    try {
      if (options.afterRestore) await disk.raiseTermFloor()
      const state = new EmbeddedState(disk, options, disk.termFloor)
      state.#load()
      return state
    } catch (error) {
      await disk.close()
      throw error
    }
  }

  /** Every lease found counts from now, for the longest duration that was promised in its term. */
  #load(): void {
    const nowMs = this.#clock.monotonicMs()
    const names = new Map<string, string>()
    const shared = (name: string) => {
      const known = names.get(name)
      if (known !== undefined) return known
      if (names.size < 100_000) names.set(name, name)
      return name
    }
    for (const { id, stored } of this.#disk.all()) {
      const group = new Group(id)
      group.term = Math.max(stored.term, this.#termFloor)
      group.carry = stored.carry ?? ''
      group.deleted = stored.deleted ?? false
      group.definition = definitionOf(stored)
      if (stored.heldMs !== undefined) {
        group.heldMs = stored.heldMs
        group.freeAtMs = nowMs + stored.heldMs
      }
      if (stored.node !== undefined) {
        const lease = new Lease(group, {
          term: stored.leaseTerm ?? stored.term,
          nodeId: shared(stored.node),
          attempt: stored.attempt ?? '',
          metadata: stored.meta ?? {},
          acquiredAtMs: stored.at ?? 0,
          ttlMs: stored.ttl ?? 0,
          expiresAtMs: nowMs + (stored.ttl ?? 0),
        })
        lease.ended = stored.ended ?? false
        group.lease = lease
        if (!lease.ended) this.#expiries.add(lease)
      }
      this.#groups.set(id, group)
    }
    this.#arm()
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<Verdict> {
    const deadlineMs = this.#clock.monotonicMs() + claim.waitMs
    let place: Waiter | undefined
    const group = this.#groupFor(claim.groupId)
    try {
      for (;;) {
        while (group.busy) await settled(group.busy)
        // Nobody used it while this one waited for a write that failed, so it was forgotten: it must not be granted twice.
        if (this.#groups.get(claim.groupId) !== group) return await this.campaign(claim, signal)
        this.#admit(group, claim)
        const nowMs = this.#clock.monotonicMs()
        const { lease } = group
        if (lease && isLive(lease, nowMs)) {
          // The same candidacy gets its term back, and nothing more.
          const same = lease.attempt === claim.attempt && lease.nodeId === claim.nodeId
          if (same) return this.#verdict(group, true)
        } else {
          const outdated = claim.afterTerm !== undefined && group.term > claim.afterTerm
          const used = claim.attemptIsOnce && lease?.attempt === claim.attempt
          const first = group.line?.values().next().value
          const turn = first === undefined || first === place
          if (!outdated && !used && turn && nowMs >= group.freeAtMs) return await this.#grant(group, claim)
          if (outdated || used) return await this.#refusal(group)
        }
        if (nowMs >= deadlineMs || signal.aborted) {
          this.#members.note(group.id, claim.nodeId, claim.metadata, this.#clock.wallMs())
          return await this.#refusal(group)
        }
        place = await this.#wait(group, place, deadlineMs, signal)
      }
    } finally {
      if (place) this.#leaveLine(group, place)
      this.#forgetIfEmpty(group)
    }
  }

  renew(claim: RenewClaim): MaybePromise<Verdict> {
    const group = this.#groups.get(claim.groupId)
    if (!group) return nothing
    if (group.busy) return settled(group.busy).then(() => this.renew(claim))
    const { lease } = group
    const nowMs = this.#clock.monotonicMs()
    if (!lease || !this.#matches(lease, claim) || !isLive(lease, nowMs)) return this.#refusal(group)
    const { extendByMs, carry } = claim
    this.#checkTtl(group, 'extend_by_ms', extendByMs)
    const untilMs = nowMs + extendByMs
    const written = extendByMs > lease.promisedMs || (carry !== undefined && carry !== group.carry)
    return written ? this.#renewOnDisk(lease, claim, untilMs) : this.#renewed(lease, extendByMs, untilMs)
  }

  /** A promise that is longer than the disk knows must survive a crash, and so must a carry. */
  async #renewOnDisk(lease: Lease, { extendByMs, carry }: RenewClaim, untilMs: number): Promise<Verdict> {
    const { group } = lease
    const promisedMs = Math.max(lease.promisedMs, extendByMs)
    const stored = storedOf(group)
    return this.#commit(group, { ...stored, ttl: promisedMs, ...(carry !== undefined && { carry }) }, () => {
      lease.promisedMs = promisedMs
      if (carry !== undefined) group.carry = carry
      return this.#renewed(lease, extendByMs, untilMs)
    })
  }

  #renewed(lease: Lease, ttlMs: number, untilMs: number): Verdict {
    const { group } = lease
    // Never sooner than was promised before.
    lease.expiresAtMs = Math.max(lease.expiresAtMs, untilMs)
    lease.ttlMs = ttlMs
    lease.renewedAtMs = this.#clock.wallMs()
    lease.renewals += 1
    for (const follower of this.#followers)
      if (follower.wantsRenewals()) follower.onChange(this.#change('RENEWED', lease))
    return this.#verdict(group, true)
  }

  async resign(claim: HeldClaim): Promise<Verdict> {
    const group = this.#groups.get(claim.groupId)
    if (!group) return nothing
    while (group.busy) await settled(group.busy)
    const { lease } = group
    if (!lease || lease.nodeId !== claim.nodeId || lease.term !== claim.term) return this.#refusal(group)
    if (claim.version !== undefined || claim.attempt !== undefined) {
      if (!this.#matches(lease, claim) || !isLive(lease, this.#clock.monotonicMs())) return this.#refusal(group)
    }
    if (!lease.ended) await this.#end(lease, 'resigned')
    return this.#verdict(group, true)
  }

  leader(groupId: string): MaybePromise<Verdict> {
    const group = this.#groups.get(groupId)
    if (!group) return nothing
    const { lease } = group
    const known = !lease || lease.ended || isLive(lease, this.#clock.monotonicMs())
    return known && !group.busy ? this.#verdict(group, true) : this.#refusal(group)
  }

  async define(
    groupId: string,
    definition: Definition,
    { replace }: { replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    const group = this.#groups.get(groupId) ?? this.#create(groupId)
    while (group.busy) await settled(group.busy)
    const before = group.deleted ? undefined : group.definition
    if (before && sameDefinition(before, definition)) return 'same'
    if (before && !replace) {
      throw new ServiceError('CONFLICT', `Group "${groupId}" exists with another definition. PUT changes it.`)
    }
    return this.#commit(group, { ...storedOf(group), ...storedDefinition(definition), deleted: undefined }, () => {
      group.definition = definition
      group.deleted = false
      return before ? 'replaced' : 'created'
    })
  }

  group(groupId: string): GroupView {
    const group = this.#groups.get(groupId)
    if (!group || group.deleted) throw notFound(groupId)
    return this.#groupView(group)
  }

  async groups({
    after,
    limit,
  }: {
    after: string | undefined
    limit: number
  }): Promise<{ groups: GroupView[]; more: boolean }> {
    const views: GroupView[] = []
    for (const id of this.#disk.idsAfter(after)) {
      const group = this.#groups.get(id)
      if (!group || group.deleted) continue
      if (views.length === limit) return { groups: views, more: true }
      views.push(this.#groupView(group))
    }
    return { groups: views, more: false }
  }

  async remove(groupId: string, { force }: { force: boolean }): Promise<void> {
    const group = this.#groups.get(groupId)
    if (!group || group.deleted) throw notFound(groupId)
    while (group.busy) await settled(group.busy)
    const { lease } = group
    const leftMs = lease && !lease.ended ? lease.expiresAtMs - this.#clock.monotonicMs() : 0
    if (leftMs > 0 && !force) {
      throw new ServiceError('CONFLICT', `Group "${groupId}" has a leader. Let it resign, or add ?force=true.`)
    }
    // Its lease has been promised to somebody: nobody else leads before it is over, also after a restart.
    const heldMs = leftMs > 0 ? (lease?.promisedMs ?? 0) : 0
    const ended = { ...storedOf(group), ended: true, deleted: true, allowed: undefined, min: undefined, max: undefined }
    await this.#commit(group, { ...ended, ...(heldMs > 0 && { heldMs }) }, () => {
      group.definition = undefined
      group.deleted = true
      this.#members.forget(groupId)
      if (leftMs > 0) group.freeAtMs = this.#clock.monotonicMs() + leftMs
      group.heldMs = heldMs
      if (lease && !lease.ended) this.#ended(lease, 'deleted')
    })
  }

  heartbeat(groupId: string, nodeId: string, metadata: Metadata): void {
    const group = this.#groups.get(groupId)
    if (!group || group.deleted) throw notFound(groupId)
    this.#checkAllowed(group, nodeId)
    this.#members.note(groupId, nodeId, metadata, this.#clock.wallMs())
  }

  members(groupId: string): MemberView[] {
    const group = this.#groups.get(groupId)
    if (!group || group.deleted) throw notFound(groupId)
    const { lease } = group
    const leader = lease && isLive(lease, this.#clock.monotonicMs()) ? lease : undefined
    return this.#members.list(groupId, {
      allowed: group.definition?.allowedNodes ?? [],
      last: lease && { nodeId: lease.nodeId, metadata: lease.metadata, lastHeartbeatMs: lease.renewedAtMs },
      leaderId: leader?.nodeId,
      nowMs: this.#clock.wallMs(),
    })
  }

  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => void this.#followers.delete(follower)
  }

  get groupCount(): number {
    return this.#groups.size
  }

  async check(): Promise<void> {
    await this.#disk.check()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#timer?.timer.cancel()
    await this.#disk.close()
  }

  // Deciding

  #groupFor(groupId: string): Group {
    const group = this.#groups.get(groupId)
    if (group && (!group.deleted || this.#options.implicitGroups)) return group
    if (!this.#options.implicitGroups) throw notFound(groupId)
    return this.#create(groupId)
  }

  #create(groupId: string): Group {
    if (this.#groups.size >= this.#options.maxGroups) {
      throw new ServiceError('RATE_LIMITED', `This service keeps at most ${this.#options.maxGroups} groups.`)
    }
    const group = new Group(groupId)
    group.term = this.#termFloor
    this.#groups.set(groupId, group)
    return group
  }

  /** A campaign that came to nothing leaves no group behind. */
  #forgetIfEmpty(group: Group): void {
    const used = group.lease || group.definition || group.busy || group.line?.size || group.term > this.#termFloor
    if (!used && this.#groups.get(group.id) === group) this.#groups.delete(group.id)
  }

  #admit(group: Group, claim: CampaignClaim): void {
    this.#checkAllowed(group, claim.nodeId)
    this.#checkTtl(group, 'lease_ttl_ms', claim.ttlMs)
  }

  #checkAllowed(group: Group, nodeId: string): void {
    const allowed = group.definition?.allowedNodes
    if (!allowed || allowed.includes(nodeId)) return
    throw new ServiceError('UNAUTHORIZED', `Node "${nodeId}" is not allowed in group "${group.id}".`)
  }

  #checkTtl(group: Group, field: string, ttlMs: number): void {
    const { minTtlMs, maxTtlMs } = group.definition?.policy ?? this.#options.policy
    if (ttlMs >= minTtlMs && ttlMs <= maxTtlMs) return
    throw new ServiceError(
      'INVALID_TTL',
      `${field} is ${ttlMs}; group "${group.id}" takes ${minTtlMs} to ${maxTtlMs}.`,
      {
        details: { min_ttl_ms: minTtlMs, max_ttl_ms: maxTtlMs },
      },
    )
  }

  #matches(lease: Lease, claim: HeldClaim): boolean {
    return (
      lease.nodeId === claim.nodeId &&
      lease.term === claim.term &&
      (claim.attempt === undefined || lease.attempt === claim.attempt) &&
      (claim.version === undefined || viewOf(lease, 0, this.#run).version === claim.version)
    )
  }

  async #grant(group: Group, claim: CampaignClaim): Promise<Verdict> {
    const term = Math.max(group.term, claim.afterTerm ?? 0) + 1
    if (!Number.isSafeInteger(term)) throw new ServiceError('CONFLICT', `Group "${group.id}" has used its last term.`)
    // Burnt from here on, whatever becomes of the write.
    group.term = term
    const lease = new Lease(group, {
      term,
      nodeId: claim.nodeId,
      attempt: claim.attempt,
      metadata: claim.metadata,
      acquiredAtMs: this.#clock.wallMs(),
      ttlMs: claim.ttlMs,
      expiresAtMs: Infinity,
    })
    const { ended: _ended, heldMs: _heldMs, deleted: _deleted, ...stored } = storedOf(group, lease)
    return this.#commit(group, stored, () => {
      const before = group.lease
      if (before && !before.ended) this.#ended(before, 'expired')
      // From now, not from the campaign: it may have waited in line, and its sender counts from what it sent.
      lease.expiresAtMs = this.#clock.monotonicMs() + claim.ttlMs
      group.deleted = false
      group.heldMs = 0
      group.lease = lease
      this.#expiries.add(lease)
      this.#arm()
      this.#tell('LEADER_CHANGED', lease)
      return this.#verdict(group, true)
    })
  }

  /** A refusal tells that a term has ended, or who leads: what it says must survive a crash. */
  async #refusal(group: Group): Promise<Verdict> {
    while (group.busy) await settled(group.busy)
    const { lease } = group
    if (lease && !lease.ended && !isLive(lease, this.#clock.monotonicMs())) await this.#end(lease, 'expired')
    return this.#verdict(group, false)
  }

  #verdict(group: Group, granted: boolean): Verdict {
    const { lease } = group
    const nowMs = this.#clock.monotonicMs()
    return {
      granted,
      // Who led a group that was deleted is nobody's business; its term stays.
      lease: lease && !group.deleted ? viewOf(lease, nowMs, this.#run) : undefined,
      highestTerm: group.term,
      freeInMs: Math.max(0, group.freeAtMs - nowMs),
    }
  }

  // Ending

  async #end(lease: Lease, reason: 'expired' | 'resigned'): Promise<void> {
    const { group } = lease
    while (group.busy) await settled(group.busy)
    if (lease.ended || group.lease !== lease) return
    // Meanwhile it may have been renewed.
    if (reason === 'expired' && isLive(lease, this.#clock.monotonicMs())) return
    await this.#commit(group, { ...storedOf(group), ended: true }, () => this.#ended(lease, reason))
  }

  #ended(lease: Lease, reason: 'expired' | 'resigned' | 'deleted'): void {
    lease.ended = true
    this.#tell('LEADER_LOST', lease, reason)
    this.#wakeLine(lease.group)
  }

  /** One timer for all leases. */
  #arm(): void {
    const nextMs = this.#expiries.nextMs()
    if (nextMs === undefined || this.#closed) return
    if (this.#timer && this.#timer.atMs <= nextMs) return
    this.#timer?.timer.cancel()
    const timer = this.#clock.setTimer(nextMs - this.#clock.monotonicMs(), () => this.#expire())
    this.#timer = { atMs: nextMs, timer }
  }

  #expire(): void {
    this.#timer = undefined
    const nowMs = this.#clock.monotonicMs()
    for (let lease = this.#expiries.take(nowMs); lease; lease = this.#expiries.take(nowMs)) {
      const expired = lease
      this.#end(expired, 'expired')
        .then(
          // Renewed while it waited for a write.
          () => void (expired.ended || this.#expiries.add(expired)),
          // The disk failed. Nobody is told of the end before it can be written down.
          () => void this.#clock.setTimer(retryMs, () => this.#retryEnd(expired)),
        )
        .finally(() => this.#arm())
    }
    this.#arm()
  }

  #retryEnd(lease: Lease): void {
    if (this.#closed || lease.ended) return
    this.#expiries.add(lease)
    this.#arm()
  }

  // Waiting

  /**
   * Writes, then lets `apply` make it true in memory. Until both are done the group is busy: whoever is to decide about
   * it looks at `busy` in the same breath in which it decides.
   */
  async #commit<T>(group: Group, stored: Stored, apply: () => T): Promise<T> {
    if (this.#closed) throw new ServiceError('BACKEND_UNAVAILABLE', 'The service is stopping.')
    const committing = this.#disk.write(group.id, stored).then(apply)
    group.busy = committing
    try {
      return await committing
    } finally {
      group.busy = undefined
    }
  }

  /** In line until it is this one's turn, time is over, or the caller has gone. */
  async #wait(group: Group, place: Waiter | undefined, deadlineMs: number, signal: AbortSignal): Promise<Waiter> {
    const waiter = place ?? { wake: () => {} }
    group.line ??= new Set()
    group.line.add(waiter)
    const untilMs = Math.max(1, Math.min(deadlineMs, this.#nextChangeMs(group)) - this.#clock.monotonicMs())
    await new Promise<void>((resolve) => {
      const timer = this.#clock.setTimer(untilMs, done)
      signal.addEventListener('abort', done, { once: true })
      function done(): void {
        timer.cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      waiter.wake = done
      if (signal.aborted) done()
    })
    return waiter
  }

  #nextChangeMs(group: Group): number {
    const nowMs = this.#clock.monotonicMs()
    return group.freeAtMs > nowMs ? group.freeAtMs : Infinity
  }

  #leaveLine(group: Group, place: Waiter): void {
    group.line?.delete(place)
    if (group.line?.size === 0) group.line = undefined
    this.#wakeLine(group)
  }

  #wakeLine(group: Group): void {
    group.line?.values().next().value?.wake()
  }

  #tell(type: Change['type'], lease: Lease, reason?: NonNullable<Change['reason']>): void {
    const change = this.#change(type, lease, reason)
    for (const follower of this.#followers) follower.onChange(change)
  }

  #change(type: Change['type'], lease: Lease, reason?: Change['reason']): Change {
    return {
      type,
      groupId: lease.group.id,
      lease: viewOf(lease, this.#clock.monotonicMs(), this.#run),
      atMs: this.#clock.wallMs(),
      ...(reason && { reason }),
    }
  }

  #groupView(group: Group): GroupView {
    const { lease } = this.#verdict(group, true)
    return {
      groupId: group.id,
      definition: group.definition ?? { policy: this.#options.policy, allowedNodes: undefined },
      explicit: group.definition !== undefined,
      highestTerm: group.term,
      lease,
    }
  }
}

const nothing: Verdict = { granted: false, lease: undefined, highestTerm: 0, freeInMs: 0 }

function isLive(lease: Lease, nowMs: number): boolean {
  return !lease.ended && nowMs < lease.expiresAtMs
}

/** A write that ended, either way. */
function settled(write: Promise<unknown>): Promise<unknown> {
  return write.catch(() => undefined)
}

function notFound(groupId: string): ServiceError {
  return new ServiceError('NOT_FOUND', `There is no group "${groupId}".`)
}

function definitionOf({ min, max, allowed, deleted }: Stored): Definition | undefined {
  if (min === undefined || max === undefined || deleted) return undefined
  return { policy: { minTtlMs: min, maxTtlMs: max }, allowedNodes: allowed }
}

function storedDefinition({ policy, allowedNodes }: Definition): Partial<Stored> {
  return { min: policy.minTtlMs, max: policy.maxTtlMs, allowed: allowedNodes }
}

function sameDefinition(one: Definition, other: Definition): boolean {
  return JSON.stringify(storedDefinition(one)) === JSON.stringify(storedDefinition(other))
}
