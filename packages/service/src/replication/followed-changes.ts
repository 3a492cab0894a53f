import { pause } from '@tenure/internal/pause'
import { setMaxListeners } from 'node:events'
import type { Clock } from 'tenure'
import type { Break, Follower, LeaseView } from '../groups/groups.ts'
import { isAfter, positionFrom, textOf, type Position } from '../storage/position.ts'
import type { Change, KeptChange } from '../watch/feed.ts'
import { ChangeTexts } from './change-texts.ts'
import type { PeerClient } from './peer-client.ts'
import { mostChanged, type Told } from './peer-stream.ts'
import { isSameReplica, type ActiveReplica, type ActiveReplicas } from './active-replica.ts'

type Here = ActiveReplica & { readonly kind: 'here' }
type Elsewhere = ActiveReplica & { readonly kind: 'elsewhere' }

export interface FollowedChangesOptions {
  readonly places: ActiveReplicas
  readonly clock: Clock
  /** The newest durable position when this replica first read the storage. */
  readonly position: Position
  /** Called with each position that the active replica reports. Everything up to it is durable. */
  readonly onHeard?: ((position: Position) => void) | undefined
  /** Returns the connection to the active replica. */
  link(place: Elsewhere): PeerClient
}

const followMs = 5_000
const retryMs = 100

/**
 * The changes of all groups, on whichever replica they are made. While this replica is active they come from its own
 * groups, otherwise from one stream of the active replica. Positions are the same on all replicas, so each source
 * continues where the previous one ended. Where a source cannot continue, followers learn which groups may have
 * changed.
 */
export class FollowedChanges {
  readonly #options: FollowedChangesOptions
  readonly #followers = new Set<Follower>()
  readonly #texts = new ChangeTexts()
  readonly #stopped = new AbortController()
  #position: Position
  /** The source of changes now, undefined while there is none. */
  #source: ActiveReplica | undefined
  #waiting: { isOver(): boolean; over(): void }[] = []

  constructor(options: FollowedChangesOptions) {
    this.#options = options
    this.#position = options.position
    setMaxListeners(0, this.#stopped.signal)
  }

  /** The position of the newest change that followers received. */
  get position(): Position {
    return this.#position
  }

  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => void this.#followers.delete(follower)
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'carry'> | undefined {
    return this.#texts.of(groupId, term)
  }

  /** Resolves once followers have received everything up to a position, or when the signal aborts. */
  reached(position: Position, signal: AbortSignal): Promise<void> {
    return this.#until(() => !isAfter(position, this.#position), signal)
  }

  /** Resolves to true once changes come from this source, and to false when another replica becomes active first. */
  async whenFrom(place: ActiveReplica): Promise<boolean> {
    const { places } = this.#options
    const isThere = () => this.#source !== undefined && isSameReplica(this.#source, place)
    await this.#until(() => isThere() || !isSameReplica(places.now(), place), this.#stopped.signal)
    return isThere()
  }

  async run(): Promise<void> {
    const { places, clock } = this.#options
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const place = places.now()
      const left = new AbortController()
      const leave = () => left.abort()
      signal.addEventListener('abort', leave)
      void places.changed(place, left.signal).then(leave)
      if (place.kind === 'here') await this.#followHere(place, left.signal)
      else if (place.kind === 'elsewhere') await this.#followThere(place, left.signal)
      else await aborted(left.signal)
      this.#source = undefined
      signal.removeEventListener('abort', leave)
      this.#look()
      // The stream was cut off although the active replica is still the same.
      if (!left.signal.aborted) await pause(clock, retryMs, left.signal)
      leave()
    }
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #followHere(place: Here, left: AbortSignal): Promise<void> {
    const { groups } = place
    let early: KeptChange[] | undefined = []
    const leave = groups.follow({
      onChange: (change) => (early ? void early.push(change) : this.#tell(change)),
      wantsRenewals: () => this.#wantsRenewals(),
      onRenewal: (change) => this.#tellRenewal(change),
    })
    try {
      const { position } = groups
      // A position before ours means that the storage has lost what this replica had read from it.
      if (isAfter(position, this.#position) || isAfter(this.#position, position)) {
        this.#tellBreak({ position, changed: await groups.changedAfter(this.#position, mostChanged) })
      }
      const told = early
      early = undefined
      for (const change of told) this.#tell(change)
      this.#source = place
      this.#look()
      await aborted(left)
    } finally {
      leave()
    }
  }

  async #followThere(place: Elsewhere, left: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const link = this.#options.link(place)
    const cut = new AbortController()
    const end = () => cut.abort()
    left.addEventListener('abort', end)
    link.onClose = end
    const over = aborted(cut.signal)
    const begin = textOf(this.#position)
    // An older stream of this connection may continue until the active replica has processed this request. Nobody was
    // listening to it in between, so its next change would hide the missed ones.
    let hasBegun = false
    link.onTold = (told) => {
      for (const each of told as readonly Told[]) {
        if ('after' in each) hasBegun ||= each.after === begin
        else if (hasBegun) this.#onTold(each)
      }
      return textOf(this.#position)
    }
    try {
      while (!cut.signal.aborted && !link.isClosed) {
        const renewals = this.#wantsRenewals()
        await Promise.race([link.follow(textOf(this.#position), renewals, followMs), over])
        if (cut.signal.aborted) return
        this.#source = place
        this.#look()
        while (!cut.signal.aborted && this.#wantsRenewals() === renewals) await pause(clock, retryMs, cut.signal)
      }
    } catch {
      // The other replica is not active, or not reachable. The next active replica will be known soon.
    } finally {
      left.removeEventListener('abort', end)
      link.onTold = undefined
      link.onClose = undefined
    }
  }

  #onTold(told: Exclude<Told, { readonly after: string }>): void {
    if ('renewal' in told) return this.#tellRenewal(told.renewal)
    const position = positionFrom(told.at)
    if (!position) return
    this.#options.onHeard?.(position)
    if ('change' in told) return this.#tell({ ...told.change, position })
    this.#tellBreak({ position, changed: told.changed ? new Set(told.changed) : undefined })
  }

  #tell(change: KeptChange): void {
    // A change sent before a disconnect can arrive again after it.
    if (!isAfter(change.position, this.#position)) return
    this.#texts.note(change)
    if (isLossBetween(this.#position, change.position)) {
      return this.#tellBreak({ position: change.position, changed: undefined })
    }
    this.#position = change.position
    for (const follower of this.#followers) follower.onChange(change)
    this.#look()
  }

  #tellBreak({ position, changed }: Break): void {
    const gap = { position, changed: isLossBetween(this.#position, position) ? undefined : changed }
    this.#position = position
    for (const follower of this.#followers) follower.onBreak?.(gap)
    this.#look()
  }

  #wantsRenewals(): boolean {
    for (const follower of this.#followers) if (follower.wantsRenewals?.()) return true
    return false
  }

  #tellRenewal(change: Change): void {
    for (const follower of this.#followers) if (follower.wantsRenewals?.()) follower.onRenewal?.(change)
  }

  async #until(isOver: () => boolean, signal: AbortSignal): Promise<void> {
    if (isOver() || signal.aborted) return
    await new Promise<void>((resolve) => {
      const over = () => {
        signal.removeEventListener('abort', over)
        this.#waiting = this.#waiting.filter((waiter) => waiter !== waiting)
        resolve()
      }
      const waiting = { isOver, over }
      signal.addEventListener('abort', over)
      this.#waiting.push(waiting)
    })
  }

  #look(): void {
    for (const { isOver, over } of this.#waiting) if (isOver()) over()
  }
}

/**
 * Each term begins with its own batch, after all durable ones. If a later term starts at a lower or equal batch number,
 * the storage has lost batches that were already reported, and any group may have a different state now.
 */
function isLossBetween(known: Position, next: Position): boolean {
  if (known.restores !== next.restores) return true
  return known.term < next.term && known.seq >= next.seq
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
