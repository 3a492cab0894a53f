import type { Clock } from 'tenure'
import type { MetadataText } from '../common/checks.ts'
import type {
  Caller,
  CampaignClaim,
  Definition,
  ChangeListener,
  Groups,
  GroupState,
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
  RenewClaim,
} from '../groups/port.ts'
import { pageOf, type GroupListing } from '../groups/listing.ts'
import type { LocalGroups } from '../groups/local-groups.ts'
import { isAfter, type Position } from '../storage/position.ts'
import {
  ActiveCalls,
  noActiveReplica,
  unknownOutcome,
  type ActiveCall,
  type ActiveCallsOptions,
} from './active-calls.ts'
import { FollowedChanges } from './followed-changes.ts'
import { PeerError, type PeerClient } from './peer-client.ts'
import type { AnswerOf, ArgsOf, PeerCallName } from './peer-calls.ts'
import { isSameActiveTerm, type ActiveReplicaSource, type LocalReplica, type RemoteReplica } from './active-replica.ts'

export interface ClusterGroupsOptions extends ActiveCallsOptions {
  /** The newest durable position at the time when this replica first read the storage. */
  readonly position: Position
  /** Called with each position that the active replica reports. Everything up to it is durable. */
  readonly onHeard?: ((position: Position) => void) | undefined
}

/** How long a follower waits until it has received the changes that an answer shows. */
const reachMs = 2_000

/**
 * The groups of a cluster, on any replica. If this replica is active it answers, otherwise it forwards calls to the
 * active one.
 *
 * A call may have been carried out when the active replica changes. So a call is sent again only if that does no harm:
 *
 * - A campaign has an attempt id that is created before it is first sent. A repeated campaign is the same attempt, so
 *   it gets the term that it may have won. It keeps the rest of its wait, but not its position in the queue.
 * - Renewals and resignations name a term, and a second one changes nothing that the first did not. If a second
 *   resignation is refused, the outcome is unknown: the first may have succeeded, and another node may have become
 *   leader since.
 * - Reads and heartbeats change nothing durable.
 *
 * A definition or a removal might undo a change that another caller made in between. So its caller gets an error saying
 * that the outcome is unknown.
 */
export class ClusterGroups implements Groups {
  readonly clusterId: string
  /** The changes of all groups, which this replica also sends to its followers. */
  readonly changes: FollowedChanges
  readonly #options: ClusterGroupsOptions
  readonly #activeReplicas: ActiveReplicaSource
  readonly #clock: Clock
  readonly #calls: ActiveCalls
  readonly #caller: Caller | undefined

  /** `view` creates the same groups for calls of another caller. */
  constructor(options: ClusterGroupsOptions, view?: { readonly of: ClusterGroups; readonly caller: Caller }) {
    this.clusterId = options.clusterId
    this.#options = options
    this.#activeReplicas = options.activeReplicas
    this.#clock = options.clock
    this.#caller = view?.caller
    this.#calls = view ? view.of.#calls : new ActiveCalls(options)
    this.changes =
      view?.of.changes ??
      new FollowedChanges({ ...options, clientFor: (activeReplica) => this.clientFor(activeReplica) })
  }

  forCaller(caller: Caller): Groups {
    return new ClusterGroups(this.#options, { of: this, caller })
  }

  /** Returns the one connection to the active replica. */
  clientFor(activeReplica: RemoteReplica): PeerClient {
    return this.#calls.clientFor(activeReplica)
  }

  /** Starts to follow changes, and the active replica. */
  start(): void {
    void this.changes.run()
    this.#calls.start()
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupState> {
    const untilMs = this.#clock.monotonicMs() + claim.waitMs
    const clock = this.#clock
    const left = {
      ...claim,
      get waitMs() {
        return Math.max(0, untilMs - clock.monotonicMs())
      },
    }
    return this.#ask('campaign', [left], {
      runLocally: (activeReplica) =>
        claim.waitMs > 0
          ? this.#waitLocally(activeReplica, left, signal)
          : activeReplica.groups.campaign(claim, signal),
      isRepeatable: true,
      // A getter, because each attempt may use only the rest of the wait.
      get waitMs() {
        return left.waitMs
      },
      // All campaigns that do not wait share this signal.
      ...(claim.waitMs > 0 && { signal }),
    })
  }

  /**
   * Waits in the campaign queue of this replica. When it is no longer active, the campaign leaves the queue and
   * continues on the next active replica.
   */
  async #waitLocally(activeReplica: LocalReplica, claim: CampaignClaim, signal: AbortSignal): Promise<GroupState> {
    const over = new AbortController()
    const end = () => over.abort()
    signal.addEventListener('abort', end)
    void this.#activeReplicas.changed(activeReplica, over.signal).then(end)
    if (signal.aborted) end()
    try {
      const standing = await activeReplica.groups.campaign(claim, over.signal)
      const isOurs = standing.granted || signal.aborted || isSameActiveTerm(this.#activeReplicas.now(), activeReplica)
      if (isOurs) return standing
      throw new PeerError('This replica is no longer active.', false)
    } finally {
      signal.removeEventListener('abort', end)
      end()
    }
  }

  renew(claim: RenewClaim): MaybePromise<GroupState> {
    return this.#read('renew', [claim], (groups) => groups.renew(claim))
  }

  renewMany(
    nodeId: string,
    renewals: readonly BatchRenewal[],
    subject?: string,
  ): MaybePromise<readonly BatchRenewalResult[]> {
    const args = [nodeId, renewals as ArgsOf<'renewMany'>[1]] satisfies ArgsOf<'renewMany'>
    return this.#read('renewMany', args, (groups) => groups.renewMany(nodeId, renewals, subject))
  }

  resign(claim: HolderClaim): Promise<GroupState> {
    return this.#end('resign', claim, (groups) => groups.resign(claim))
  }

  forceResign(claim: HolderClaim): Promise<GroupState> {
    return this.#end('forceResign', claim, (groups) => groups.forceResign(claim))
  }

  async #end(
    verb: 'resign' | 'forceResign',
    claim: HolderClaim,
    runLocally: (groups: LocalGroups) => Promise<GroupState>,
  ): Promise<GroupState> {
    let mayBeDone = false
    const standing = await this.#ask(verb, [claim], {
      runLocally: ({ groups }) => runLocally(groups),
      isRepeatable: true,
      onRepeat: () => void (mayBeDone = true),
    })
    // The first attempt may have ended the term, and another node may have become leader since. So this answer is not a
    // refusal.
    if (mayBeDone && !standing.granted) throw unknownOutcome('The active replica was replaced, or did not answer.')
    return standing
  }

  leader(groupId: string): MaybePromise<GroupState> {
    return this.#read('leader', [groupId], (groups) => groups.leader(groupId))
  }

  async leaders(groupIds: readonly string[]): Promise<readonly GroupState[]> {
    const { standings, position } = await this.#ask('leaders', [[...groupIds]], {
      runLocally: async ({ groups }) => ({ standings: await groups.leaders(groupIds), position: groups.position }),
      isRepeatable: true,
    })
    await this.#reached(position)
    return standings
  }

  async define(
    groupId: string,
    definition: Definition,
    { replace }: { readonly replace: boolean },
  ): Promise<'created' | 'same' | 'replaced'> {
    return this.#ask('define', [groupId, definition, replace], {
      runLocally: ({ groups }) => groups.define(groupId, definition, { replace }),
      isRepeatable: false,
    })
  }

  async remove(groupId: string, { force }: { readonly force: boolean }): Promise<void> {
    return this.#ask('remove', [groupId, force], {
      runLocally: ({ groups }) => groups.remove(groupId, { force }),
      isRepeatable: false,
    })
  }

  group(groupId: string): MaybePromise<GroupView> {
    return this.#read('group', [groupId], (groups) => groups.group(groupId))
  }

  #listing(): GroupListing {
    return {
      idsAfter: (after, most) =>
        this.#read('idsAfter', [after ?? null, most], (groups) => groups.idsAfter(after, most)),
      views: async (ids) => {
        const views = await this.#read('views', [[...ids]], (groups) => groups.views(ids))
        return views.map((view) => view ?? undefined)
      },
    }
  }

  count(): MaybePromise<number> {
    return this.#read('count', [], (groups) => groups.count())
  }

  /** Rights are checked on this replica, even if the groups are on another. */
  groups(options: PageOptions): Promise<Page> {
    const activeReplica = this.#activeReplicas.now()
    return activeReplica.kind === 'local' ? activeReplica.groups.groups(options) : pageOf(this.#listing(), options)
  }

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void> {
    return this.#read('heartbeat', [groupId, nodeId, metadata, instance ?? null], (groups) =>
      groups.heartbeat(groupId, nodeId, metadata, instance),
    )
  }

  reportWatches(open: readonly OpenWatch[]): MaybePromise<void> {
    return this.#read('present', [open as ArgsOf<'present'>[0]], (groups) => groups.reportWatches(open))
  }

  members(groupId: string): MaybePromise<MemberView[]> {
    return this.#read('members', [groupId], (groups) => groups.members(groupId))
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'checkpoint'> | undefined {
    const activeReplica = this.#activeReplicas.now()
    return activeReplica.kind === 'local'
      ? activeReplica.groups.textsOf(groupId, term)
      : this.changes.textsOf(groupId, term)
  }

  listen(follower: ChangeListener): () => void {
    return this.changes.follow(follower)
  }

  async reaches(position: Position): Promise<boolean> {
    if (!isAfter(position, this.changes.position)) return true
    const { position: newest, durable } = await this.#read('newest', [], (groups) => groups)
    if (isAfter(position, durable)) return false
    // There are no changes between the newest change and the newest write.
    await this.#reached(isAfter(position, newest) ? newest : position)
    return true
  }

  async check(): Promise<void> {
    return this.#read('check', [], (groups) => groups.check())
  }

  async close(): Promise<void> {
    this.changes.stop()
    this.#calls.close()
  }

  /** Makes a call that does no harm if it is carried out twice. */
  #read<Name extends PeerCallName>(
    verb: Name,
    args: ArgsOf<Name>,
    here: (groups: LocalGroups) => MaybePromise<AnswerOf<Name>>,
  ): MaybePromise<AnswerOf<Name>> {
    return this.#ask(verb, args, { runLocally: ({ groups }) => here(groups), isRepeatable: true })
  }

  #ask<Name extends PeerCallName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: Omit<ActiveCall<Name>, 'caller'>,
  ): MaybePromise<AnswerOf<Name>> {
    return this.#calls.ask(verb, args, call, this.#caller)
  }

  /**
   * Waits until this replica has received every change that the answer shows. Otherwise a watcher could see an older
   * state after a newer one.
   */
  async #reached(position: Position): Promise<void> {
    if (!isAfter(position, this.changes.position)) return
    const late = new AbortController()
    const timer = this.#clock.setTimer(reachMs, () => late.abort(), { background: true })
    await this.changes.reached(position, AbortSignal.any([late.signal, this.#calls.closed]))
    timer.cancel()
    if (isAfter(position, this.changes.position))
      throw noActiveReplica('This replica has not received the newest changes yet. Retry the request.')
  }
}
