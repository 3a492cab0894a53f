import { setMaxListeners } from 'node:events'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'
import type {
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
import { FollowedChanges } from './followed-changes.ts'
import { LinkClient, LinkError, type LinkClientOptions } from './link-client.ts'
import type { AnswerOf, ArgsOf, VerbName } from './link-verbs.ts'
import { isSamePlace, type Place, type Places } from './place.ts'

type Here = Place & { readonly kind: 'here' }
type Elsewhere = Place & { readonly kind: 'elsewhere' }

export interface ClusterGroupsOptions extends LinkClientOptions {
  readonly places: Places
  /** What was durable when this replica first looked at the storage. */
  readonly position: Position
  /** Called with each position that the active replica tells of: all up to it was durable before. */
  readonly onHeard?: ((position: Position) => void) | undefined
}

/** How a call is made here, and how it is passed on. */
interface Call<Name extends VerbName> {
  here(place: Here): MaybePromise<AnswerOf<Name>>
  /** Whether it does no harm if it is carried out twice. */
  readonly isRepeatable: boolean
  /** Called before it is carried out again although it may have been. */
  onRepeat?(): void
  /** How long the caller waits beyond what a call takes. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

/** How long a call is held while nobody is active, unless its caller waits for longer anyhow. */
const holdMs = 2_000
/** How long a call may take, beside what its caller wants to wait. */
const callMs = 10_000
const retryMs = 100
const soonMs = 1_000

/**
 * The groups of a cluster, on any replica: answered here where this one is active, otherwise by the one that is.
 *
 * A call whose place changed under it may have been carried out, so it is sent again only where that does no harm:
 *
 * - a campaign has an attempt that was minted before it was first sent: again, it is the same candidacy, and gets the
 *   term that it may have won. What is left of its wait goes with it; its place in line does not;
 * - renewals and resignations name a term, and a second one changes nothing that the first did not. Where a second
 *   resignation is refused, the outcome is unknown: the first may have been taken, and another may lead since;
 * - reads and heartbeats change nothing that is kept.
 *
 * A definition or a removal might undo what somebody else did in between. Its caller hears that the outcome is unknown.
 */
export class ClusterGroups implements Groups {
  readonly clusterId: string
  /** For followers of this one. */
  readonly changes: FollowedChanges
  readonly #options: ClusterGroupsOptions
  readonly #places: Places
  readonly #clock: Clock
  readonly #closed = new AbortController()
  readonly #listing: Listing
  #link: LinkClient | undefined

  constructor(options: ClusterGroupsOptions) {
    this.clusterId = options.clusterId
    this.#options = options
    this.#places = options.places
    this.#clock = options.clock
    // Every call that is held listens to it.
    setMaxListeners(0, this.#closed.signal)
    this.changes = new FollowedChanges({ ...options, link: (place) => this.linkTo(place) })
    this.#listing = {
      idsAfter: (after, most) =>
        this.#read('idsAfter', [after ?? null, most], (groups) => groups.idsAfter(after, most)),
      views: async (ids) => {
        const views = await this.#read('views', [[...ids]], (groups) => groups.views(ids))
        return views.map((view) => view ?? undefined)
      },
    }
  }

  /** Begins to follow changes, and who is active. */
  start(): void {
    void this.changes.run()
    void this.#leaveFormerPlaces()
  }

  /** What waits at a replica that is active no more goes on elsewhere. */
  async #leaveFormerPlaces(): Promise<void> {
    const { signal } = this.#closed
    let known = this.#places.now()
    while (!signal.aborted) {
      await this.#places.changed(known, signal)
      const place = this.#places.now()
      // Where nobody is known to be active, the one who was may still be.
      if (place.kind !== 'nowhere' && !isSamePlace(place, known)) this.#leave(place)
      known = place
    }
  }

  #leave(place: Place): void {
    const isThere = place.kind === 'elsewhere' && this.#link?.address === place.address
    if (!isThere) this.#link?.close('Another replica is active.')
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
      // What is left of it, whenever that is asked.
      get waitMs() {
        return left.waitMs
      },
      // Those who do not wait share one.
      ...(claim.waitMs > 0 && { signal }),
    })
  }

  /** Those who wait in line of a replica that is active no more are let go, and go on elsewhere. */
  async #waitHere(place: Here, claim: CampaignClaim, signal: AbortSignal): Promise<GroupStanding> {
    const over = new AbortController()
    const end = () => over.abort()
    signal.addEventListener('abort', end)
    void this.#places.changed(place, over.signal).then(end)
    if (signal.aborted) end()
    try {
      const standing = await place.groups.campaign(claim, over.signal)
      const isOurs = standing.granted || signal.aborted || isSamePlace(this.#places.now(), place)
      if (isOurs) return standing
      throw new LinkError('This replica is active no more.', false)
    } finally {
      signal.removeEventListener('abort', end)
      end()
    }
  }

  renew(claim: RenewClaim): MaybePromise<GroupStanding> {
    return this.#read('renew', [claim], (groups) => groups.renew(claim))
  }

  /** Of a batch that is passed on nobody is charged for telling of it: replicas of earlier versions know of none. */
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
    // The first one may have ended the term, and another leads since: that would not be a refusal.
    if (mayBeDone && !standing.granted) throw unknownOutcome('The active replica was replaced, or not heard.')
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

  count(): MaybePromise<number> {
    return this.#read('count', [], (groups) => groups.count())
  }

  /** Rights are known here, and the groups are elsewhere: each says what it can. */
  groups(options: PageOptions): Promise<Page> {
    const place = this.#places.now()
    return place.kind === 'here' ? place.groups.groups(options) : pageOf(this.#listing, options)
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
    // Between the newest change and the newest write there is nothing to hear of.
    await this.#reached(isAfter(position, newest) ? newest : position)
    return true
  }

  async check(): Promise<void> {
    return this.#read('check', [], (groups) => groups.check())
  }

  async close(): Promise<void> {
    this.#closed.abort()
    this.changes.stop()
    this.#link?.close()
  }

  /** A call that does no harm if it is carried out twice. */
  #read<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    here: (groups: LocalGroups) => MaybePromise<AnswerOf<Name>>,
  ): MaybePromise<AnswerOf<Name>> {
    return this.#ask(verb, args, { here: ({ groups }) => here(groups), isRepeatable: true })
  }

  /** At once where this replica is active, and nothing is to wait for: renewals are many. */
  #ask<Name extends VerbName>(verb: Name, args: ArgsOf<Name>, call: Call<Name>): MaybePromise<AnswerOf<Name>> {
    const place = this.#places.now()
    if (place.kind !== 'here') return this.#askAgain(verb, args, call)
    const failed = (error: unknown) => {
      if (!this.#mayRepeat(call, place, error)) throw error
      call.onRepeat?.()
      return this.#askAgain(verb, args, call)
    }
    try {
      const answer = call.here(place)
      return answer instanceof Promise ? answer.catch(failed) : answer
    } catch (error) {
      return failed(error)
    }
  }

  /** Until it is answered, or there was nobody to answer it for too long. */
  async #askAgain<Name extends VerbName>(verb: Name, args: ArgsOf<Name>, call: Call<Name>): Promise<AnswerOf<Name>> {
    const untilMs = this.#clock.monotonicMs() + callMs + (call.waitMs ?? 0)
    // A crash of the active one takes longer than a call is held: its place in line is lost, what is left of its wait is not.
    const hold = () => this.#clock.monotonicMs() + Math.max(holdMs, call.waitMs ?? 0)
    let heldUntilMs = hold()
    for (;;) {
      const place = this.#places.now()
      try {
        if (place.kind === 'here') return await call.here(place)
        if (place.kind === 'elsewhere') {
          const deadlineMs = untilMs - this.#clock.monotonicMs()
          const link = this.linkTo(place)
          return await link.call(verb, args, { deadlineMs, signal: call.signal })
        }
      } catch (error) {
        if (!this.#mayRepeat(call, place, error)) {
          throw error instanceof LinkError ? unknownOutcome(error.message, error) : error
        }
        const mayBeDone = !(error instanceof LinkError) || error.mayBeDone
        if (mayBeDone) call.onRepeat?.()
        // It was taken, and its place changed: only from now on it is held.
        if (error instanceof LinkError && mayBeDone) heldUntilMs = hold()
      }
      await this.#hold(place, Math.min(heldUntilMs, untilMs), call.signal)
    }
  }

  #mayRepeat(call: Pick<Call<VerbName>, 'isRepeatable'>, place: Place, error: unknown): boolean {
    if (this.#closed.signal.aborted) return false
    if (error instanceof LinkError) return call.isRepeatable || !error.mayBeDone
    // Of this replica while it was active: what failed because it is so no more is of no use to anybody.
    const isOver = place.kind === 'here' && !isSamePlace(this.#places.now(), place)
    return call.isRepeatable && isOver && error instanceof ServiceError && error.code === 'BACKEND_UNAVAILABLE'
  }

  /** Until somebody else is active, or the same one may be reached again. */
  async #hold(place: Place, untilMs: number, signal: AbortSignal | undefined): Promise<void> {
    const leftMs = untilMs - this.#clock.monotonicMs()
    if (leftMs <= 0 || this.#closed.signal.aborted || signal?.aborted) throw nobody()
    const over = new AbortController()
    const end = () => over.abort()
    const signals = [this.#closed.signal, ...(signal ? [signal] : [])]
    for (const each of signals) each.addEventListener('abort', end)
    void this.#places.changed(place, over.signal).then(end)
    await pause(this.#clock, place.kind === 'nowhere' ? leftMs : Math.min(leftMs, retryMs), over.signal)
    for (const each of signals) each.removeEventListener('abort', end)
    end()
  }

  /** What was seen must not be ahead of what was told. */
  async #reached(position: Position): Promise<void> {
    if (!isAfter(position, this.changes.position)) return
    const late = new AbortController()
    const timer = this.#clock.setTimer(holdMs, () => late.abort(), { background: true })
    await this.changes.reached(position, AbortSignal.any([late.signal, this.#closed.signal]))
    timer.cancel()
    if (isAfter(position, this.changes.position)) throw nobody('This replica has not heard of the newest changes yet.')
  }

  /** The one connection to the active replica. */
  linkTo({ address }: Elsewhere): LinkClient {
    if (this.#link?.address === address && !this.#link.isClosed) return this.#link
    this.#link?.close()
    this.#link = new LinkClient(address, this.#options)
    return this.#link
  }
}

function nobody(message = 'No replica of this service is active.'): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', message, { details: { retry_after_ms: soonMs } })
}

function unknownOutcome(why: string, cause?: LinkError): ServiceError {
  const message = `${why} Whether it was done is not known.`
  return new ServiceError('BACKEND_UNAVAILABLE', message, { cause, details: { retry_after_ms: soonMs } })
}
