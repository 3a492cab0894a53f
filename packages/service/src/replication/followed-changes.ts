import { pause } from '@tenure/internal/pause'
import { setMaxListeners } from 'node:events'
import type { Clock } from 'tenure'
import type { ChangeGap, GroupChange, ChangeListener, KeptChange, LeaseView } from '../groups/port.ts'
import { isAfter, positionFrom, textOf, type Position } from '../storage/position.ts'
import { ChangeTexts } from './change-texts.ts'
import type { PeerClient } from './peer-client.ts'
import { maxListedGroups, type StreamItem } from './peer-stream.ts'
import {
  isSameActiveTerm,
  type ActiveReplica,
  type ActiveReplicaSource,
  type LocalReplica,
  type RemoteReplica,
} from './active-replica.ts'

export interface FollowedChangesOptions {
  readonly activeReplicas: ActiveReplicaSource
  readonly clock: Clock
  /** The newest durable position at the time when this replica first read the storage. */
  readonly position: Position
  /** Called with each position that the active replica reports. Everything up to it is durable. */
  readonly onHeard?: ((position: Position) => void) | undefined
  /** Returns the connection to the active replica. */
  clientFor(activeReplica: RemoteReplica): PeerClient
}

const followMs = 5_000
const retryMs = 100

/**
 * The changes of all groups, on whichever replica they are made. While this replica is active they come from its own
 * groups, otherwise from one stream of the active replica. Positions are the same on all replicas, so each source
 * continues where the previous one ended. If a source cannot continue, followers learn which groups may have changed.
 */
export class FollowedChanges {
  readonly #options: FollowedChangesOptions
  readonly #followers = new Set<ChangeListener>()
  readonly #texts = new ChangeTexts()
  readonly #stopped = new AbortController()
  #position: Position
  /** The current source of changes. Undefined while there is none. */
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

  follow(follower: ChangeListener): () => void {
    this.#followers.add(follower)
    return () => void this.#followers.delete(follower)
  }

  textsOf(groupId: string, term: number): Pick<LeaseView, 'metadata' | 'checkpoint'> | undefined {
    return this.#texts.of(groupId, term)
  }

  /** Resolves once followers have received everything up to a position, or when the signal aborts. */
  reached(position: Position, signal: AbortSignal): Promise<void> {
    return this.#until(() => !isAfter(position, this.#position), signal)
  }

  /** Resolves to true once changes come from this source, and to false when another replica becomes active first. */
  async whenFrom(activeReplica: ActiveReplica): Promise<boolean> {
    const { activeReplicas } = this.#options
    const isThere = () => this.#source !== undefined && isSameActiveTerm(this.#source, activeReplica)
    await this.#until(() => isThere() || !isSameActiveTerm(activeReplicas.now(), activeReplica), this.#stopped.signal)
    return isThere()
  }

  async run(): Promise<void> {
    const { activeReplicas, clock } = this.#options
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const activeReplica = activeReplicas.now()
      const left = new AbortController()
      const leave = () => left.abort()
      signal.addEventListener('abort', leave)
      void activeReplicas.changed(activeReplica, left.signal).then(leave)
      if (activeReplica.kind === 'local') await this.#followHere(activeReplica, left.signal)
      else if (activeReplica.kind === 'remote') await this.#followThere(activeReplica, left.signal)
      else await aborted(left.signal)
      this.#source = undefined
      signal.removeEventListener('abort', leave)
      this.#look()
      // The stream was cut off although the same replica is still active.
      if (!left.signal.aborted) await pause(clock, retryMs, left.signal)
      leave()
    }
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #followHere(activeReplica: LocalReplica, left: AbortSignal): Promise<void> {
    const { groups } = activeReplica
    let early: KeptChange[] | undefined = []
    const leave = groups.listen({
      onChange: (change) => (early ? void early.push(change) : this.#tell(change)),
      wantsRenewals: () => this.#wantsRenewals(),
      onRenewal: (change) => this.#tellRenewal(change),
    })
    try {
      const { position } = groups
      // A position before this replica's own position means that the storage has lost data that this replica had read.
      if (isAfter(position, this.#position) || isAfter(this.#position, position)) {
        this.#tellBreak({ position, changed: await groups.changedAfter(this.#position, maxListedGroups) })
      }
      const told = early
      early = undefined
      for (const change of told) this.#tell(change)
      this.#source = activeReplica
      this.#look()
      await aborted(left)
    } finally {
      leave()
    }
  }

  async #followThere(activeReplica: RemoteReplica, left: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const client = this.#options.clientFor(activeReplica)
    const cut = new AbortController()
    const end = () => cut.abort()
    left.addEventListener('abort', end)
    client.onClose = end
    const over = aborted(cut.signal)
    const begin = textOf(this.#position)
    // An older stream of this connection may continue until the active replica has processed this request. Nobody was
    // listening to it in between, so its next change would hide the missed ones.
    let hasBegun = false
    client.onChanges = (told) => {
      for (const each of told as readonly StreamItem[]) {
        if ('after' in each) hasBegun ||= each.after === begin
        else if (hasBegun) this.#onChanges(each)
      }
      return textOf(this.#position)
    }
    try {
      while (!cut.signal.aborted && !client.isClosed) {
        const renewals = this.#wantsRenewals()
        await Promise.race([client.follow(textOf(this.#position), renewals, followMs), over])
        if (cut.signal.aborted) return
        this.#source = activeReplica
        this.#look()
        while (!cut.signal.aborted && this.#wantsRenewals() === renewals) await pause(clock, retryMs, cut.signal)
      }
    } catch {
      // The other replica is not active, or not reachable. The next active replica will be known soon.
    } finally {
      left.removeEventListener('abort', end)
      client.onChanges = undefined
      client.onClose = undefined
    }
  }

  #onChanges(told: Exclude<StreamItem, { readonly after: string }>): void {
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

  #tellBreak({ position, changed }: ChangeGap): void {
    const gap = { position, changed: isLossBetween(this.#position, position) ? undefined : changed }
    this.#position = position
    for (const follower of this.#followers) follower.onGap?.(gap)
    this.#look()
  }

  #wantsRenewals(): boolean {
    for (const follower of this.#followers) if (follower.wantsRenewals?.()) return true
    return false
  }

  #tellRenewal(change: GroupChange): void {
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
