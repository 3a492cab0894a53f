import type { Clock } from 'tenure'
import type {
  Caller,
  CampaignClaim,
  Definition,
  Follower,
  Groups,
  GroupStanding,
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
  RenewClaim,
} from '../groups/groups.ts'
import { pageOf, type Listing } from '../groups/listing.ts'
import type { LocalGroups } from '../groups/local-groups.ts'
import { isAfter, type Position } from '../storage/position.ts'
import {
  ActiveCalls,
  nobody,
  unknownOutcome,
  type ActiveCall,
  type ActiveCallsOptions,
  type Elsewhere,
  type Here,
} from './active-calls.ts'
import { FollowedChanges } from './followed-changes.ts'
import { PeerError, type PeerClient } from './peer-client.ts'
import type { AnswerOf, ArgsOf, VerbName } from './peer-calls.ts'
import { isSameReplica, type ActiveReplicas } from './active-replica.ts'

export interface ClusterGroupsOptions extends ActiveCallsOptions {
  /** The newest durable position when this replica first read the storage. */
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
 * A call may have been carried out when the active replica changes. So it is only sent again if that does no harm:
 *
 * - A campaign has an attempt id that is created before it is first sent. If repeated, it is the same attempt, and gets
 *   the term that it may have won. It keeps what is left of its wait, but not its position in the queue.
 * - Renewals and resignations name a term, and a second one changes nothing that the first did not. If a second
 *   resignation is refused, the outcome is unknown: the first may have succeeded, and another node may lead since.
 * - Reads and heartbeats change nothing durable.
 *
 * A definition or a removal might undo a change that another caller made in between. Its caller gets an error that says
 * that the outcome is unknown.
 */
export class ClusterGroups implements Groups {
  readonly clusterId: string
  /** For followers of this replica. */
  readonly changes: FollowedChanges
  readonly #options: ClusterGroupsOptions
  readonly #places: ActiveReplicas
  readonly #clock: Clock
  readonly #calls: ActiveCalls
  readonly #caller: Caller | undefined

  /** `view` creates the same groups for another caller. */
  constructor(options: ClusterGroupsOptions, view?: { readonly of: ClusterGroups; readonly caller: Caller }) {
    this.clusterId = options.clusterId
    this.#options = options
    this.#places = options.places
    this.#clock = options.clock
    this.#caller = view?.caller
    this.#calls = view ? view.of.#calls : new ActiveCalls(options)
    this.changes = view?.of.changes ?? new FollowedChanges({ ...options, link: (place) => this.linkTo(place) })
  }

  as(caller: Caller): Groups {
    return new ClusterGroups(this.#options, { of: this, caller })
  }

  /** Returns the one connection to the active replica. */
  linkTo(place: Elsewhere): PeerClient {
    return this.#calls.linkTo(place)
  }

  /** Starts to follow changes, and the active replica. */
  start(): void {
    void this.changes.run()
    this.#calls.start()
  }

  async campaign(claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding> {
    const untilMs = this.#clock.monotonicMs() + claim.waitMs
    const clock = this.#clock
    const left = {
      ...claim,
      get waitMs() {
        return Math.max(0, untilMs - clock.monotonicMs())
      },
    }
    return this.#ask('campaign', [left], {
      here: (place) => (claim.waitMs > 0 ? this.#waitHere(place, left, signal) : place.groups.campaign(claim, signal)),
      isRepeatable: true,
      // What is left of it at the time of the read.
      get waitMs() {
        return left.waitMs
      },
      // Campaigns that do not wait share one signal.
      ...(claim.waitMs > 0 && { signal }),
    })
  }

  /**
   * Waits in the campaign queue of this replica. When it is no longer active, the campaign leaves the queue and
   * continues on the next active replica.
   */
  async #waitHere(place: Here, claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding> {
    const over = new AbortController()
    const end = () => over.abort()
    signal.addEventListener('abort', end)
    void this.#places.changed(place, over.signal).then(end)
    if (signal.aborted) end()
    try {
      const standing = await place.groups.campaign(claim, over.signal)
      const isOurs = standing.granted || signal.aborted || isSameReplica(this.#places.now(), place)
      if (isOurs) return standing
      throw new PeerError('This replica is no longer active.', false)
    } finally {
      signal.removeEventListener('abort', end)
      end()
    }
  }

  renew(claim: RenewClaim): MaybePromise<GroupStanding> {
    return this.#read('renew', [claim], (groups) => groups.renew(claim))
  }

  renewMany(nodeId: string, renewals: readonly ManyRenewal[], subject?: string): MaybePromise<readonly ManyRenewed[]> {
    const args = [nodeId, renewals as ArgsOf<'renewMany'>[1]] satisfies ArgsOf<'renewMany'>
    return this.#read('renewMany', args, (groups) => groups.renewMany(nodeId, renewals, subject))
  }

  resign(claim: HolderClaim): Promise<GroupStanding> {
    return this.#end('resign', claim)
  }

  depose(claim: HolderClaim): Promise<GroupStanding> {
    return this.#end('depose', claim)
  }

  async #end(verb: 'resign' | 'depose', claim: HolderClaim): Promise<GroupStanding> {
    let mayBeDone = false
    const standing = await this.#ask(verb, [claim], {
      here: ({ groups }) => groups[verb](claim),
      isRepeatable: true,
      onRepeat: () => void (mayBeDone = true),
    })
    // The first try may have ended the term, and another node may lead since. So this is not a refusal.
    if (mayBeDone && !standing.granted) throw unknownOutcome('The active replica was replaced, or did not answer.')
    return standing
  }

  leader(groupId: string): MaybePromise<GroupStanding> {
    return this.#read('leader', [groupId], (groups) => groups.leader(groupId))
  }

  async leaders(groupIds: readonly string[]): Promise<readonly GroupStanding[]> {
    const { standings, position } = await this.#ask('leaders', [[...groupIds]], {
      here: async ({ groups }) => ({ standings: await groups.leaders(groupIds), position: groups.position }),
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
      here: ({ groups }) => groups.define(groupId, definition, { replace }),
      isRepeatable: false,
    })
  }

  async remove(groupId: string, { force }: { readonly force: boolean }): Promise<void> {
    return this.#ask('remove', [groupId, force], {
      here: ({ groups }) => groups.remove(groupId, { force }),
      isRepeatable: false,
    })
  }

  group(groupId: string): MaybePromise<GroupView> {
    return this.#read('group', [groupId], (groups) => groups.group(groupId))
  }

  #listing(): Listing {
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
    const place = this.#places.now()
    return place.kind === 'here' ? place.groups.groups(options) : pageOf(this.#listing(), options)
  }

  heartbeat(groupId: string, nodeId: string, metadata: MetadataText, instance?: string): MaybePromise<void> {
    return this.#read('heartbeat', [groupId, nodeId, metadata, instance ?? null], (groups) =>
      groups.heartbeat(groupId, nodeId, metadata, instance),
    )
  }

  present(open: readonly Present[]): MaybePromise<void> {
    return this.#read('present', [open as ArgsOf<'present'>[0]], (groups) => groups.present(open))
  }

  members(groupId: string): MaybePromise<MemberView[]> {
    return this.#read('members', [groupId], (groups) => groups.members(groupId))
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'carry'> | undefined {
    const place = this.#places.now()
    return place.kind === 'here' ? place.groups.textsOf(groupId, term) : this.changes.textsOf(groupId, term)
  }

  follow(follower: Follower): () => void {
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

  /** A call that does no harm if it is carried out twice. */
  #read<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    here: (groups: LocalGroups) => MaybePromise<AnswerOf<Name>>,
  ): MaybePromise<AnswerOf<Name>> {
    return this.#ask(verb, args, { here: ({ groups }) => here(groups), isRepeatable: true })
  }

  #ask<Name extends VerbName>(
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
      throw nobody('This replica has not received the newest changes yet. Retry the request.')
  }
}
