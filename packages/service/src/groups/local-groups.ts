import type { Timer } from 'tenure'
import { Pace } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type {
  CampaignClaim,
  Definition,
  Groups,
  Follower,
  GroupView,
  HolderClaim,
  LeaseView,
  ManyRenewal,
  ManyRenewed,
  MaybePromise,
  MemberView,
  MetadataText,
  Page,
  PageOptions,
  Present,
  RefusalData,
  RenewClaim,
  GroupStanding,
} from './groups.ts'
import type { Group, GroupLease, Waiter } from './group.ts'
import { GroupDriver, noAnswer, noGroup, type Ask, type DriverOptions, type Otherwise } from './group-driver.ts'
import type { GroupTable } from './group-table.ts'
import { firstInQueue, leaveQueue, newWaiter, waitInLine } from './campaign-queue.ts'
import { pageOf, type Listing } from './listing.ts'
import { lateMs, Members } from './members.ts'
import type { Loaded } from '../storage/storage.ts'
import * as rules from './rules.ts'
import { isAfter, isWrittenAfter, type Position } from '../storage/position.ts'
import type { ServingClock } from './serving-clock.ts'
import type { ShownFigures } from './group-metrics.ts'

/** The options of {@link LocalGroups.open}. */
export interface LocalGroupsOptions extends DriverOptions {
  /** Whether a campaign creates a group. */
  readonly implicitGroups: boolean
  readonly maxMembersPerGroup: number
  readonly memberTtlMs: number
  /** Throws if a subject may not create another group. */
  readonly chargeNewGroup?: ((subject: string) => void) | undefined
}

const pruneMs = 60_000
/** How long an open watch counts as a heartbeat. Replicas report theirs every 5 s. */
const presentMs = 15_000
const noNodes: ReadonlySet<string> = new Set()
const groupsPerLook = 1_024

/**
 * The groups for which this process answers. Requests go through the driver to the rules. Only the driver changes
 * groups.
 */
export class LocalGroups implements Groups, Listing {
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

  /** Loads all groups. By then no other process may append to the storage. Nothing is answered before {@link serve}. */
  static async open(options: LocalGroupsOptions, given?: Loaded): Promise<LocalGroups> {
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

  /** On this replica, the request gate has already divided the time among the callers. */
  as(): this {
    return this
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding> {
    const deadlineMs = this.#clock.monotonicMs() + claim.waitMs
    const { implicitGroups, chargeNewGroup } = this.#options
    const { subject } = claim
    if (subject !== undefined && chargeNewGroup && !(await this.leader(claim.groupId)).lease) chargeNewGroup(subject)
    let place: Waiter | undefined
    let group: Group | undefined
    const again = async (waited: Promise<Waiter>) => {
      place = await waited
      return undefined
    }
    const ask: Ask<'granted' | 'refused' | 'wait' | RefusalData, GroupStanding | undefined> = {
      groupId: claim.groupId,
      missing: implicitGroups ? (id) => this.#table.have(id) : (id) => this.#table.known(id),
      judge: (found, now) => {
        group = found
        // The group may have been deleted while the campaign waited.
        if (!implicitGroups) this.#table.known(claim.groupId)
        if (signal.aborted) return { answer: 'refused' }
        const first = firstInQueue(found)
        return rules.judgeCampaign(found, { ...claim, isFirst: first === undefined || first === place }, now)
      },
      answered: (found, answer, now) => {
        if (answer === 'granted') return this.#driver.standing(found, true)
        if (answer === 'refused') return this.#driver.read(claim.groupId)
        if (answer !== 'wait') throw errorOf(answer)
        const isLate = now.monotonicMs >= deadlineMs
        if (isLate || !place) this.#noteCandidate(found, claim, now)
        if (!isLate) {
          const waiter = place ?? newWaiter(claim.nodeId)
          return again(waitInLine(found, waiter, { clock: this.#clock, deadlineMs, signal }))
        }
        return this.#driver.read(claim.groupId)
      },
      written: (found) => {
        // From now on its lease shows it as a member. Its liveness as a candidate says nothing about a leader that
        // dies.
        this.#members.leave(found.id, claim.nodeId)
        return this.#driver.standing(found, true)
      },
    }
    try {
      for (;;) {
        const standing = await this.#driver.take(ask)
        if (standing) return standing
      }
    } finally {
      if (group && place) leaveQueue(group, place)
      if (group) this.#table.forgetIfEmpty(group)
    }
  }

  /** A candidate may be silent for as long as its response told it to wait. */
  #noteCandidate(
    group: Group,
    { nodeId, metadata, instance }: CampaignClaim,
    { wallMs, monotonicMs }: rules.Now,
  ): void {
    const untilMs = Math.max(group.lease?.expiresAtMs ?? 0, group.hold?.untilMs ?? 0, monotonicMs)
    this.#members.note(group.id, nodeId, metadata, wallMs, { instance, liveUntilMs: untilMs + lateMs })
  }

  renew(claim: RenewClaim): MaybePromise<GroupStanding> {
    return this.#driver.take(new OneRenewal(this.#driver, claim))
  }

  /** Fails as a whole if this process no longer answers, because another replica may then be asked. */
  renewMany(nodeId: string, renewals: readonly ManyRenewal[], subject?: string): MaybePromise<readonly ManyRenewed[]> {
    const results: ManyRenewed[] = []
    const waiting: Promise<void>[] = []
    for (const [index, renewal] of renewals.entries()) {
      const renewed = this.#driver.take(new OneOfMany(this.#driver, nodeId, renewal, subject))
      if (renewed instanceof Promise) waiting.push(this.#collect(results, index, renewed))
      else results[index] = renewed
    }
    if (waiting.length === 0) return results
    return Promise.all(waiting).then(() => {
      this.#driver.assert()
      return results
    })
  }

  async #collect(results: ManyRenewed[], index: number, renewed: Promise<ManyRenewed>): Promise<void> {
    try {
      results[index] = await renewed
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      results[index] = { refusal: { code: error.code, message: error.message } }
    }
  }

  async resign(claim: HolderClaim): Promise<GroupStanding> {
    return this.#driver.take<'refused' | 'done', GroupStanding>({
      groupId: claim.groupId,
      missing: noGroup,
      judge: (group, now) => rules.judgeResignation(group, claim, now),
      answered: (group, answer) =>
        answer === 'done' ? this.#driver.standing(group, true) : this.#driver.read(group.id),
      written: (group) => {
        this.#members.leave(group.id, claim.nodeId)
        return this.#driver.standing(group, true)
      },
    })
  }

  async depose(claim: HolderClaim): Promise<GroupStanding> {
    return this.#driver.take<'refused' | 'done', GroupStanding>({
      groupId: claim.groupId,
      missing: noGroup,
      judge: (group, now) => rules.judgeDeposition(group, claim, now),
      answered: (group, answer) =>
        answer === 'done' ? this.#driver.standing(group, true) : this.#driver.read(group.id),
      written: (group) => this.#driver.standing(group, true),
    })
  }

  leader(groupId: string): MaybePromise<GroupStanding> {
    return this.#driver.read(groupId)
  }

  leaders(groupIds: readonly string[]): MaybePromise<readonly GroupStanding[]> {
    const asked = groupIds.map((groupId) => this.#driver.read(groupId))
    // Most are known at once. Then nothing happens between the first and the last of them.
    const waits = asked.some((standing) => standing instanceof Promise)
    return waits ? Promise.all(asked.map(async (standing) => standing)) : (asked as GroupStanding[])
  }

  async define(
    groupId: string,
    definition: Definition,
    { replace }: { readonly replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    let group: Group | undefined
    try {
      return await this.#driver.take<'same' | RefusalData, 'created' | 'same' | 'replaced'>({
        groupId,
        missing: (id) => this.#table.have(id),
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
    await this.#driver.take<RefusalData, void>({
      groupId,
      missing: (id) => this.#table.known(id),
      judge: (_group, now) => rules.judgeRemoval(this.#table.known(groupId), { force }, now),
      answered: (_group, refusal) => {
        throw errorOf(refusal)
      },
      written: () => this.#members.forget(groupId),
    })
  }

  async group(groupId: string): Promise<GroupView> {
    return this.#lookAtKnown(groupId, (group) => this.#view(group))
  }

  /** The group may have been deleted while the request waited. */
  #lookAtKnown<T>(groupId: string, show: (group: Group) => T): MaybePromise<T> {
    const known = () => this.#table.known(groupId)
    return this.#driver.look(groupId, known, () => show(known()))
  }

  async groups(options: PageOptions): Promise<Page> {
    const page = await pageOf(this, options)
    // An empty page was answered without any check since.
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
    const known = () => this.#table.known(groupId)
    return this.#driver.take<RefusalData | undefined, void>({
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

  present(open: readonly Present[]): void {
    this.#driver.assert()
    const liveUntilMs = this.#clock.monotonicMs() + presentMs
    for (const [groupId, nodeId] of open) {
      const group = this.#table.get(groupId)
      if (!group || group.deleted || rules.refusalOfNode(group, nodeId)) continue
      this.#members.present(groupId, nodeId, this.#clock.wallMs(), liveUntilMs)
    }
  }

  async members(groupId: string): Promise<MemberView[]> {
    return this.#lookAtKnown(groupId, (group) => this.#members.list(groupId, this.#knownOf(group)))
  }

  /** Returns the approximate size of {@link members} as text. */
  memberBytes(groupId: string): number {
    return this.#members.bytesOf(groupId)
  }

  /** Returns what is known about members besides their heartbeats. */
  #knownOf({ lease, definition, line }: Group): Parameters<Members['list']>[1] {
    return {
      waiting: line ? new Set(Array.from(line, ({ nodeId }) => nodeId)) : noNodes,
      allowed: definition?.allowedNodes ?? [],
      last: lease && !lease.hasLeft ? memberOf(lease) : undefined,
      leaderId: lease && !lease.ended ? lease.nodeId : undefined,
      nowMs: this.#clock.wallMs(),
      monotonicMs: this.#clock.monotonicMs(),
    }
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'carry'> | undefined {
    const group = this.#driver.isLost() ? undefined : this.#table.get(groupId)
    return group?.lease?.term === term ? { metadata: group.lease.metadata, carry: group.carry } : undefined
  }

  follow(follower: Follower): () => void {
    this.#driver.followers.add(follower)
    return () => void this.#driver.followers.delete(follower)
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
    const pace = new Pace()
    let looked = 0
    for (const { id, seq } of this.#table.values()) {
      if (isWrittenAfter(seq, position)) changed.add(id)
      if (changed.size > most) return undefined
      looked += 1
      if (looked % groupsPerLook === 0 && pace.isOver) await pace.pause()
    }
    return changed
  }

  /** How long this process was stalled, as far as it noticed. */
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
  figures(): ShownFigures | undefined {
    return this.#driver.figures((group) => this.#members.count(group.id, this.#knownOf(group)).standbys)
  }

  check(): Promise<void> {
    return this.#driver.check()
  }

  /** Waits for calls in flight. With a reason, none of them is answered, and all fail with it. */
  async close(reason?: ServiceError): Promise<void> {
    this.#pruning?.cancel()
    await this.#driver.stop(reason)
  }

  #view(group: Group): GroupView {
    const { lease } = this.#driver.standing(group, false)
    return {
      groupId: group.id,
      definition: group.definition ?? { policy: this.#options.policy, allowedNodes: undefined },
      explicit: group.definition !== undefined,
      highestTerm: group.term,
      lease,
      ...this.#members.count(group.id, this.#knownOf(group)),
      waiting: group.line?.size ?? 0,
    }
  }
}

function memberOf({ nodeId, instance, metadata, renewedAtMs }: GroupLease) {
  return { nodeId, instance, metadata, lastHeartbeatMs: renewedAtMs }
}

type RenewalAnswer = 'refused' | 'extended' | RefusalData

/** A class, because most requests are renewals, and its methods are created only once. */
abstract class Renewal<T> implements Ask<RenewalAnswer, T> {
  readonly groupId: string
  protected readonly driver: GroupDriver
  readonly #claim: RenewClaim

  constructor(driver: GroupDriver, claim: RenewClaim) {
    this.groupId = claim.groupId
    this.driver = driver
    this.#claim = claim
  }

  abstract missing(): Otherwise<T>
  protected abstract extended(group: Group, remainingMs: number): T
  protected abstract refused(standing: GroupStanding): T

  /** A renewal that is refused now may be granted once a write in flight has made the lease longer. */
  overtakes(answer: RenewalAnswer): boolean {
    return answer === 'extended'
  }

  judge(group: Group, now: rules.Now): ReturnType<typeof rules.judgeRenewal> {
    return rules.judgeRenewal(group, this.#claim, now)
  }

  answered(group: Group, answer: RenewalAnswer, now: rules.Now): MaybePromise<T> {
    if (answer === 'extended') return this.extended(group, this.driver.extend(group, this.#claim, now))
    if (answer !== 'refused') return this.refused({ ...this.driver.standing(group, false), refusal: answer })
    const standing = this.driver.read(group.id)
    return standing instanceof Promise ? standing.then((later) => this.refused(later)) : this.refused(standing)
  }

  written(group: Group, _step: rules.Step, now: rules.Now): T {
    return this.extended(group, this.driver.extend(group, this.#claim, now))
  }
}

class OneRenewal extends Renewal<GroupStanding> {
  missing(): Otherwise<GroupStanding> {
    return noGroup()
  }

  protected extended(group: Group): GroupStanding {
    return this.driver.standing(group, true)
  }

  protected refused(standing: GroupStanding): GroupStanding {
    return standing
  }
}

const nothingToRenew: Otherwise<ManyRenewed> = { otherwise: {} }

/** Ten thousand of these come at once, so each result contains only what is needed. */
class OneOfMany extends Renewal<ManyRenewed> {
  constructor(driver: GroupDriver, nodeId: string, renewal: ManyRenewal, subject: string | undefined) {
    const [groupId, term, extendByMs] = renewal
    super(driver, { groupId, nodeId, term, extendByMs, subject })
  }

  missing(): Otherwise<ManyRenewed> {
    return nothingToRenew
  }

  protected extended(_group: Group, remainingMs: number): ManyRenewed {
    return Math.floor(remainingMs)
  }

  protected refused({ lease, refusal }: GroupStanding): ManyRenewed {
    return { currentTerm: lease?.term, refusal }
  }
}

function errorOf(refusal: RefusalData): ServiceError {
  return new ServiceError(refusal.code, refusal.message, refusal)
}
