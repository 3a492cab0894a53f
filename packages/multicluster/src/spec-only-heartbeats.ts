import type { MultiClusterLease } from 'tenure/stores/multicluster'
import {
  hasOwnHeartbeat,
  pairOf,
  readHeartbeat,
  type Heartbeat,
  type Moment,
  type Served,
} from './spec-only-candidate.ts'
import { drop, newPendingCall, type PendingCall } from './pending-call.ts'
import type { Heard } from './status.ts'

/** A heartbeat that is to be served. */
export interface TrackedHeartbeat extends PendingCall {
  readonly heartbeat: Heartbeat
}

/** A confirmation that is to be written soon, or not at all. */
export interface Confirmation extends Heard {
  readonly sentAtMs: number
  readonly sentAtBootMs: number
  /** After that it is discarded. */
  readonly lastsMs: number
}

const firstPauseMs = 100
const longestPauseMs = 1_000

/** A moment by both clocks of a machine: the one that stands still while it sleeps, and the one that does not. */
type Now = Pick<Moment, 'nowMs' | 'bootMs'>

/**
 * The newest heartbeat of a candidate that knows only the document. All that it knows is data, and time comes from
 * outside: exploration sets both.
 */
export class Heartbeats {
  current: TrackedHeartbeat | undefined
  malformed: string | undefined
  /** When one came that no request has, while requests were there. */
  mixedAtMs = -Infinity
  confirmation: Confirmation | undefined
  pair: string | undefined
  isFirstSight = true

  /** Takes note of what a resource shows. Says whether it shows a new sign of life. */
  update(resource: MultiClusterLease, cluster: string, hasRequests: boolean, nowMs: number): boolean {
    const { spec, status, generation } = resource
    const { isFirstSight } = this
    this.isFirstSight = false
    const pair = pairOf(spec)
    const { observedGeneration = 0 } = status
    // A backup may bring the status of another resource, with a generation that this one has not had yet.
    const observed = observedGeneration > generation ? 0 : observedGeneration
    const isObserved = observed >= (this.current?.heartbeat.generation ?? generation)
    if (this.pair === pair) {
      if (isObserved) this.#observed(status.leader)
      return false
    }
    this.pair = pair
    this.malformed = undefined
    this.#settle()
    if (!hasOwnHeartbeat(spec)) return false
    if (hasRequests) {
      this.mixedAtMs = nowMs
      return false
    }
    const read = readHeartbeat(resource, cluster)
    if ('malformed' in read) {
      this.malformed = read.malformed
      return false
    }
    // Answered before this relay began: it is not a sign of life.
    if (isFirstSight && observed >= generation) return false
    this.current = { ...newPendingCall(nowMs, read.leaseDurationMs, read.leaseDurationMs), heartbeat: read }
    return true
  }

  /** The global store has answered. */
  answered(tracked: TrackedHeartbeat, served: Served, { nowMs, bootMs }: Now): void {
    if (this.current !== tracked) return
    tracked.state = 'done'
    if (served.result === 'unheard') return
    const { generation, identity, leaseDurationMs } = tracked.heartbeat
    const held = served.result === 'held' ? served : undefined
    this.confirmation = {
      generation,
      identity,
      term: held?.term,
      sentAtMs: held?.sentAtMs ?? nowMs,
      sentAtBootMs: held?.sentAtBootMs ?? bootMs,
      lastsMs: held ? leaseDurationMs / 10 : Infinity,
    }
  }

  /**
   * What may be confirmed. One that is too late is discarded and the heartbeat served again, because the candidate will
   * count from the confirmation. A machine's sleep counts.
   */
  heard(now: Now): Heard | undefined {
    if (this.confirmation && this.leftMs(now) <= 0) {
      this.confirmation = undefined
      const { current } = this
      const { nowMs } = now
      if (current?.state === 'done' && nowMs < current.endsAtMs) {
        current.state = 'open'
        current.tries += 1
        current.tryAtMs = nowMs
      }
    }
    return this.confirmation
  }

  /**
   * The record has become free. A heartbeat that was refused is served again while its candidate waits, so that a release
   * need not wait for the next heartbeat. Says whether it is.
   */
  serveAgain(nowMs: number): boolean {
    const { current } = this
    if (!current || !this.isRefused(nowMs)) return false
    current.state = 'open'
    // The first time at once. If it is not granted although it is free, the store must not be flooded.
    current.tryAtMs = nowMs + (current.tries === 0 ? 0 : Math.min(longestPauseMs, firstPauseMs * 2 ** current.tries))
    current.tries += 1
    return true
  }

  /** Whether the newest heartbeat was answered, holds nothing, and its candidate may still wait. */
  isRefused(nowMs: number): boolean {
    const { current, confirmation } = this
    if (!current || current.heartbeat.identity === '' || nowMs >= current.endsAtMs) return false
    return current.state === 'done' && confirmation?.term === undefined
  }

  /** How long the confirmation may still take to be written. */
  leftMs({ nowMs, bootMs }: Now): number {
    if (!this.confirmation) return Infinity
    const { sentAtMs, sentAtBootMs, lastsMs } = this.confirmation
    return lastsMs - Math.max(nowMs - sentAtMs, bootMs - sentAtBootMs)
  }

  forget(): void {
    this.#settle()
    this.pair = undefined
    this.malformed = undefined
    this.mixedAtMs = -Infinity
    this.isFirstSight = true
  }

  /** The status tells of this heartbeat. One that does not hold the lease may be served again. */
  #observed(leader: string | undefined): void {
    const { current } = this
    if (!current || current.heartbeat.identity === '' || leader === current.heartbeat.identity) return this.#settle()
    if (this.confirmation?.term !== undefined) return
    drop(current)
    this.confirmation = undefined
  }

  #settle(): void {
    if (this.current) drop(this.current)
    this.current = undefined
    this.confirmation = undefined
  }
}
