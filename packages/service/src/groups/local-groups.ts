import type { Timer } from 'tenure'
import { TimeSlice } from '../common/clock.ts'
import { ServiceError } from '../common/errors.ts'
import type { MetadataText } from '../common/checks.ts'
import type {
  CampaignClaim,
  Definition,
  Groups,
  ChangeListener,
  GroupView,
  HolderClaim,
  LeaseView,
  BatchRenewal,
  BatchRenewalResult,
  MaybePromise,
  MemberView,
  Page,
  PageOptions,
  OpenWatch,
  RefusalData,
  RenewClaim,
  GroupState,
} from './port.ts'
import type { Group, GroupLease, CampaignWaiter } from './in-memory-group.ts'
import {
  GroupDriver,
  noAnswer,
  noGroup,
  type GroupRequest,
  type DriverOptions,
  type LoadedAtHead,
  type MissingAnswer,
} from './group-driver.ts'
import type { GroupTable } from './group-table.ts'
import { isFirstInQueue, leaveQueue, newWaiter, waitInQueue } from './campaign-queue.ts'
import { pageOf, type GroupListing } from './listing.ts'
import { lateMs, Members } from './members.ts'
import { withSeats } from './seats.ts'
import type { Loaded } from '../storage/storage.ts'
import * as rules from './rules.ts'
import { isAfter, isWrittenAfter, type Position } from '../storage/position.ts'
import type { ServingClock } from './serving-clock.ts'
import type { GroupMetricsSnapshot } from './group-metrics.ts'

/** The options of {@link LocalGroups.open}. */
export interface LocalGroupsOptions extends DriverOptions {
  /** Whether a campaign creates a group. */
  readonly implicitGroups: boolean
  readonly maxMembersPerGroup: number
  readonly memberTtlMs: number
  /** Throws if a subject may not create any more groups. */
  readonly chargeNewGroup?: ((subject: string) => void) | undefined
}

const pruneMs = 60_000
/** How long an open watch counts as a heartbeat. Replicas report theirs every 5 s. */
const presentMs = 15_000
const noNodes: ReadonlySet<string> = new Set()
const groupsPerLook = 1_024

/**
 * The groups that this process serves. Requests go through the driver to the rules, and only the driver changes groups.
 */
export class LocalGroups implements Groups, GroupListing {
  readonly clusterId: string
  readonly #driver: GroupDriver
  readonly #table: GroupTable
  readonly #clock: ServingClock
  readonly #members: Members
  readonly #options: LocalGroupsOptions
  #pruning: Timer | undefined

  private constructor(clusterId: string, driver: GroupDriver, options: LocalGroupsOptions) {
    this.clusterId = clusterId
    this.#driver = driver
    this.#table = driver.table
    this.#clock = options.clock
    this.#members = new Members(options)
    this.#options = options
  }

  /**
   * Loads all groups. Call it only once no other process can append to the storage. No request is answered before
   * {@link serve}.
   */
  static async open(options: LocalGroupsOptions, given?: Loaded | LoadedAtHead): Promise<LocalGroups> {
    const loaded = given ?? (await options.storage.load())
    return new LocalGroups(loaded.head.clusterId, await GroupDriver.open(options, loaded), options)
  }

  /** Begins to answer. Every loaded lease counts from this one moment. */
  serve(): void {
    this.#driver.serve()
    this.#pruning = this.#pruneLater()
  }

  #pruneLater(): Timer {
    const prune = () => {
      this.#members.prune(this.#clock.wallMs())
      void this.#driver.trim()
      this.#pruning = this.#pruneLater()
    }
    return this.#clock.setTimer(pruneMs, prune, { background: true })
  }

  /** Returns these groups for every caller: the request gate has already divided the time among the callers. */
  forCaller(): this {
    return this
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupState> {
    const deadlineMs = this.#clock.monotonicMs() + claim.waitMs
    const { implicitGroups, chargeNewGroup } = this.#options
    const { subject } = claim
    if (subject !== undefined && chargeNewGroup && !(await this.leader(claim.groupId)).lease) chargeNewGroup(subject)
    let queued: CampaignWaiter | undefined
    let group: Group | undefined
    const again = async (waited: Promise<CampaignWaiter>) => {
      queued = await waited
      return undefined
    }
    const ask: GroupRequest<'granted' | 'refused' | 'wait' | RefusalData, GroupState | undefined> = {
      groupId: claim.groupId,
      missing: implicitGroups ? (id) => this.#table.getOrCreate(id) : (id) => this.#table.getExisting(id),
      judge: (found, now) => {
        group = found
        // The group may have been deleted while the campaign waited.
        if (!implicitGroups) this.#table.getExisting(claim.groupId)
        if (signal.aborted) return { answer: 'refused' }
        const { nodeId } = claim
        const isFirst = isFirstInQueue(found, { nodeId, waiter: queued, nowMs: now.monotonicMs })
        return rules.judgeCampaign(found, { ...claim, isFirst }, now)
      },
      answered: (found, answer, now) => {
        if (answer === 'granted') return this.#driver.stateOf(found, true)
        if (answer === 'refused') return this.#driver.read(claim.groupId, claim.nodeId)
        if (answer !== 'wait') throw errorOf(answer)
        const isLate = now.monotonicMs >= deadlineMs
        if (isLate || !queued) this.#noteCandidate(found, claim, now)
        if (!isLate) {
          const waiter = queued ?? newWaiter(claim.nodeId)
          return again(waitInQueue(found, waiter, { clock: this.#clock, deadlineMs, signal }))
        }
        return this.#driver.read(claim.groupId, claim.nodeId)
      },
      written: (found) => {
        // From now on the lease shows the node as a member. If its candidate entry stayed, the node would still look
        // alive after it died as the leader.
        this.#members.leave(found.id, claim.nodeId)
        return this.#driver.stateOf(found, true)
      },
    }
    try {
      for (;;) {
        const standing = await this.#driver.decide(ask)
        if (standing) return standing
      }
    } finally {
      if (group && queued) leaveQueue(group, queued)
      if (group) this.#table.forgetIfEmpty(group)
    }
  }

  /** A candidate may be silent for as long as its response asked it to wait. */
  #noteCandidate(
    group: Group,
    { nodeId, metadata, instance }: CampaignClaim,
    { wallMs, monotonicMs }: rules.DecisionContext,
  ): void {
    const untilMs = Math.max(group.lease?.expiresAtMs ?? 0, group.hold?.untilMs ?? 0, monotonicMs)
    this.#members.note(group.id, nodeId, metadata, wallMs, { instance, liveUntilMs: untilMs + lateMs })
  }

  renew(claim: RenewClaim): MaybePromise<GroupState> {
    return this.#driver.decide(new OneRenewal(this.#driver, claim))
  }

  /** Fails as a whole if this process no longer answers, because the caller can then ask another replica. */
  renewMany(
    nodeId: string,
    renewals: readonly BatchRenewal[],
    subject?: string,
  ): MaybePromise<readonly BatchRenewalResult[]> {
    const results: BatchRenewalResult[] = []
    const waiting: Promise<void>[] = []
    for (const [index, renewal] of renewals.entries()) {
      const renewed = this.#driver.decide(new OneOfMany(this.#driver, nodeId, renewal, subject))
      if (renewed instanceof Promise) waiting.push(this.#collect(results, index, renewed))
      else results[index] = renewed
    }
    if (waiting.length === 0) return results
    return Promise.all(waiting).then(() => {
      this.#driver.assert()
      return results
    })
  }

  async #collect(results: BatchRenewalResult[], index: number, renewed: Promise<BatchRenewalResult>): Promise<void> {
    try {
      results[index] = await renewed
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      results[index] = { refusal: { code: error.code, message: error.message } }
    }
  }

  async resign(claim: HolderClaim): Promise<GroupState> {
    return this.#driver.decide<'refused' | 'done', GroupState>({
      groupId: claim.groupId,
      missing: noGroup,
      judge: (group, now) => rules.judgeResignation(group, claim, now),
      answered: (group, answer) =>
        answer === 'done' ? this.#driver.stateOf(group, true) : this.#driver.read(group.id),
      written: (group) => {
        this.#members.leave(group.id, claim.nodeId)
        return this.#driver.stateOf(group, true)
      },
    })
  }

  async forceResign(claim: HolderClaim): Promise<GroupState> {
    return this.#driver.decide<'refused' | 'done', GroupState>({
      groupId: claim.groupId,
      missing: noGroup,
      judge: (group, now) => rules.judgeForcedResignation(group, claim, now),
      answered: (group, answer) =>
        answer === 'done' ? this.#driver.stateOf(group, true) : this.#driver.read(group.id),
      written: (group) => this.#driver.stateOf(group, true),
    })
  }

  leader(groupId: string): MaybePromise<GroupState> {
    return this.#driver.read(groupId)
  }

  leaders(groupIds: readonly string[]): MaybePromise<readonly GroupState[]> {
    const asked = groupIds.map((groupId) => this.#driver.read(groupId))
    // Most answers are available at once. In that case nothing changes between the first answer and the last.
    const waits = asked.some((standing) => standing instanceof Promise)
    return waits ? Promise.all(asked.map(async (standing) => standing)) : (asked as GroupState[])
  }

  async define(
    groupId: string,
    definition: Definition,
    { replace }: { readonly replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    let group: Group | undefined
    try {
      return await this.#driver.decide<'same' | RefusalData, 'created' | 'same' | 'replaced'>({
        groupId,
        missing: (id) => this.#table.getOrCreate(id),
        judge: (found, now) => {
          group = found
          return rules.judgeDefinition(found, { definition, replace }, now)
        },
        answered: (_group, answer) => {
          if (answer !== 'same') throw errorOf(answer)
          return answer
        },
        written: (_group, step) => (step.type === 'define' && step.isNew ? 'created' : 'replaced'),
      })
    } finally {
      if (group) this.#table.forgetIfEmpty(group)
    }
  }

  async remove(groupId: string, { force }: { readonly force: boolean }): Promise<void> {
    await this.#driver.decide<RefusalData, void>({
      groupId,
      missing: (id) => this.#table.getExisting(id),
      judge: (_group, now) => rules.judgeRemoval(this.#table.getExisting(groupId), { force }, now),
      answered: (_group, refusal) => {
        throw errorOf(refusal)
      },
      written: () => this.#members.forget(groupId),
    })
  }

  async group(groupId: string): Promise<GroupView> {
    return this.#lookAtKnown(groupId, (group) => this.#view(group))
  }

  /**
   * Shows an existing group. Looks the group up again for each answer, because it may be deleted while the request
   * waits.
   */
  #lookAtKnown<T>(groupId: string, show: (group: Group) => T): MaybePromise<T> {
    const known = () => this.#table.getExisting(groupId)
    return this.#driver.look(groupId, known, () => show(known()))
  }

  async groups(options: PageOptions): Promise<Page> {
    const page = await pageOf(this, options)
    // An empty page made no call that checks whether this process may answer.
    this.#driver.assert()
    return page
  }

  idsAfter(groupId: string | undefined, most: number): readonly string[] {
    this.#driver.assert()
    return this.#table.idsAfter(groupId, most)
  }

  async views(groupIds: readonly string[]): Promise<readonly (GroupView | undefined)[]> {
    const looks = groupIds.map(async (groupId) =>
      this.#driver.look(groupId, noAnswer, (group) => (group.deleted ? undefined : this.#view(group))),
    )
    const views = await Promise.all(looks)
    this.#driver.assert()
    return views
  }

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void> {
    const known = () => this.#table.getExisting(groupId)
    return this.#driver.decide<RefusalData | undefined, void>({
      groupId,
      missing: known,
      judge: () => ({ answer: rules.refusalOfNode(known(), nodeId) }),
      answered: (_group, refusal, now) => {
        if (refusal) throw errorOf(refusal)
        this.#members.note(groupId, nodeId, metadata, now.wallMs, { instance, liveUntilMs: now.monotonicMs + lateMs })
      },
      written: () => {},
    })
  }

  reportWatches(open: readonly OpenWatch[]): void {
    this.#driver.assert()
    const liveUntilMs = this.#clock.monotonicMs() + presentMs
    for (const [groupId, nodeId] of open) {
      const group = this.#table.get(groupId)
      if (!group || group.deleted || rules.refusalOfNode(group, nodeId)) continue
      this.#members.markPresent(groupId, nodeId, this.#clock.wallMs(), liveUntilMs)
    }
  }

  async members(groupId: string): Promise<MemberView[]> {
    return this.#lookAtKnown(groupId, (group) => {
      const listed = this.#members.list(groupId, this.#knownOf(group))
      return withSeats(listed, groupId, (id) => this.#table.get(id), this.#clock.monotonicMs())
    })
  }

  /** Returns the approximate size of {@link members} as text. */
  memberBytes(groupId: string): number {
    return this.#members.bytesOf(groupId)
  }

  /** Returns data about members other than their heartbeats. */
  #knownOf({ lease, definition, campaignQueue }: Group): Parameters<Members['list']>[1] {
    return {
      waiting: campaignQueue ? new Set(Array.from(campaignQueue, ({ nodeId }) => nodeId)) : noNodes,
      allowed: definition?.allowedNodes ?? [],
      last: lease && !lease.hasLeft ? memberOf(lease) : undefined,
      leaderId: lease && !lease.ended ? lease.nodeId : undefined,
      nowMs: this.#clock.wallMs(),
      monotonicMs: this.#clock.monotonicMs(),
    }
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'checkpoint'> | undefined {
    const group = this.#driver.isLost() ? undefined : this.#table.get(groupId)
    return group?.lease?.term === term ? { metadata: group.lease.metadata, checkpoint: group.checkpoint } : undefined
  }

  listen(follower: ChangeListener): () => void {
    this.#driver.listeners.add(follower)
    return () => void this.#driver.listeners.delete(follower)
  }

  reaches(position: Position): boolean {
    return !isAfter(position, this.durable)
  }

  /** The position of the newest change. */
  get position(): Position {
    return this.#driver.position
  }

  /** The position of the newest write. A replica that starts begins there, whether the write was a change or not. */
  get durable(): Position {
    return this.#driver.durable
  }

  /**
   * Returns the groups whose record was written after a position, or undefined if there are more than `most`, or if
   * they are not known.
   */
  async changedAfter(position: Position, most: number): Promise<ReadonlySet<string> | undefined> {
    if (position.restores !== this.position.restores) return undefined
    const changed = new Set<string>()
    const timeSlice = new TimeSlice()
    let looked = 0
    for (const { id, seq } of this.#table.values()) {
      if (isWrittenAfter(seq, position)) changed.add(id)
      if (changed.size > most) return undefined
      looked += 1
      if (looked % groupsPerLook === 0 && timeSlice.isOver) await timeSlice.pause()
    }
    return changed
  }

  /** How long this process has been stalled, as far as it has noticed. */
  get stalledMs(): number {
    return this.#clock.stalledMs
  }

  count(): number {
    this.#driver.assert()
    return this.#table.count
  }

  get groupCount(): number {
    return this.#table.count
  }

  /** The approximate memory that groups take, in bytes. */
  get groupBytes(): number {
    return this.#table.bytes.total
  }

  /** Returns the metrics of the named groups, or undefined while this process may not answer for them. */
  groupMetrics(): GroupMetricsSnapshot | undefined {
    return this.#driver.groupMetrics((group) => this.#members.count(group.id, this.#knownOf(group)).standbys)
  }

  check(): Promise<void> {
    return this.#driver.check()
  }

  /** Waits for calls in flight. If a reason is given, no call is answered, and all fail with that reason. */
  async close(reason?: ServiceError): Promise<void> {
    this.#pruning?.cancel()
    await this.#driver.stop(reason)
  }

  #view(group: Group): GroupView {
    const { lease } = this.#driver.stateOf(group, false)
    return {
      groupId: group.id,
      definition: group.definition ?? { policy: this.#options.policy, allowedNodes: undefined },
      explicit: group.definition !== undefined,
      highestTerm: group.term,
      lease,
      ...this.#members.count(group.id, this.#knownOf(group)),
      waiting: group.campaignQueue?.size ?? 0,
    }
  }
}

function memberOf({ nodeId, instance, metadata, renewedAtMs }: GroupLease) {
  return { nodeId, instance, metadata, lastHeartbeatMs: renewedAtMs }
}

type RenewalAnswer = 'refused' | 'extended' | RefusalData

/** This is a class so that its methods are created only once. Most requests are renewals. */
abstract class Renewal<T> implements GroupRequest<RenewalAnswer, T> {
  readonly groupId: string
  protected readonly driver: GroupDriver
  readonly #claim: RenewClaim

  constructor(driver: GroupDriver, claim: RenewClaim) {
    this.groupId = claim.groupId
    this.driver = driver
    this.#claim = claim
  }

  abstract missing(): MissingAnswer<T>
  protected abstract extended(group: Group, remainingMs: number): T
  protected abstract refused(standing: GroupState): T

  /** An extension need not wait. A refusal must wait, because a write in flight may extend the lease. */
  overtakes(answer: RenewalAnswer): boolean {
    return answer === 'extended'
  }

  judge(group: Group, now: rules.DecisionContext): ReturnType<typeof rules.judgeRenewal> {
    return rules.judgeRenewal(group, this.#claim, now)
  }

  answered(group: Group, answer: RenewalAnswer, now: rules.DecisionContext): MaybePromise<T> {
    if (answer === 'extended') return this.extended(group, this.driver.extend(group, this.#claim, now))
    if (answer !== 'refused') return this.refused({ ...this.driver.stateOf(group, false), refusal: answer })
    const standing = this.driver.read(group.id)
    return standing instanceof Promise ? standing.then((later) => this.refused(later)) : this.refused(standing)
  }

  written(group: Group, _step: rules.GroupStep, now: rules.DecisionContext): T {
    return this.extended(group, this.driver.extend(group, this.#claim, now))
  }
}

class OneRenewal extends Renewal<GroupState> {
  missing(): MissingAnswer<GroupState> {
    return noGroup()
  }

  protected extended(group: Group): GroupState {
    return this.driver.stateOf(group, true)
  }

  protected refused(standing: GroupState): GroupState {
    return standing
  }
}

const nothingToRenew: MissingAnswer<BatchRenewalResult> = { otherwise: {} }

/** One renewal of a batch. Ten thousand may arrive at once, so each result contains only the necessary fields. */
class OneOfMany extends Renewal<BatchRenewalResult> {
  constructor(driver: GroupDriver, nodeId: string, renewal: BatchRenewal, subject: string | undefined) {
    const [groupId, term, extendByMs] = renewal
    super(driver, { groupId, nodeId, term, extendByMs, subject })
  }

  missing(): MissingAnswer<BatchRenewalResult> {
    return nothingToRenew
  }

  protected extended(_group: Group, remainingMs: number): BatchRenewalResult {
    return Math.floor(remainingMs)
  }

  protected refused({ lease, refusal }: GroupState): BatchRenewalResult {
    return { currentTerm: lease?.term, refusal }
  }
}

function errorOf(refusal: RefusalData): ServiceError {
  return new ServiceError(refusal.code, refusal.message, refusal)
}
