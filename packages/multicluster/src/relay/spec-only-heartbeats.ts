import type { MultiClusterLease } from 'tenure/internal/multicluster'
import {
  hasOwnHeartbeat,
  pairOf,
  readHeartbeat,
  type Heartbeat,
  type ServingMoment,
  type Served,
} from './spec-only-candidate.ts'
import { cancelCall, newPendingCall, type PendingRequest } from '../calls/pending-call.ts'
import type { HeartbeatOutcome } from '../status/status-patch.ts'

/** A heartbeat to serve. */
export interface TrackedHeartbeat extends PendingRequest {
  readonly heartbeat: Heartbeat
}

/** A confirmation that must be written soon or not at all. */
export interface Confirmation extends HeartbeatOutcome {
  readonly sentAtMs: number
  readonly sentAtBootMs: number
  /** How long after its call was sent a confirmation is discarded. */
  readonly lastsMs: number
}

const firstPauseMs = 100
const longestPauseMs = 1_000

/** A moment on both clocks of a machine: the one that stops during sleep, and the one that does not. */
type Now = Pick<ServingMoment, 'nowMs' | 'bootMs'>

/**
 * The newest heartbeat of a spec-only candidate. Its state is plain data, and the time comes from the caller, so that
 * the model checker can set both.
 */
export class Heartbeats {
  current: TrackedHeartbeat | undefined
  malformed: string | undefined
  /** When a heartbeat without a request arrived while there were requests. */
  mixedAtMs = -Infinity
  confirmation: Confirmation | undefined
  pair: string | undefined
  isFirstSight = true

  /** Updates the state from the resource. Returns whether the resource shows a new heartbeat. */
  update(resource: MultiClusterLease, cluster: string, hasRequests: boolean, nowMs: number): boolean {
    const { spec, status, generation } = resource
    const { isFirstSight } = this
    this.isFirstSight = false
    const pair = pairOf(spec)
    const { observedGeneration = 0 } = status
    // A backup may restore the status of another resource, with a generation that this resource has not reached yet.
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
    // This heartbeat was answered before this relay started, so it does not show that the candidate is alive.
    if (isFirstSight && observed >= generation) return false
    this.current = { ...newPendingCall(nowMs, read.leaseDurationMs, read.leaseDurationMs), heartbeat: read }
    return true
  }

  /** Records the answer from the global store. */
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
   * Returns the confirmation that may still be written. A confirmation that is too late is discarded, and its heartbeat
   * is served again, because the candidate counts its lease from the confirmation. The time during which the machine
   * slept also counts.
   */
  heard(now: Now): HeartbeatOutcome | undefined {
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
   * Called when the record has become free. Serves a refused heartbeat again while its candidate waits, so that a
   * takeover after a release need not wait for the next heartbeat. Returns whether the heartbeat is served again.
   */
  serveAgain(nowMs: number): boolean {
    const { current } = this
    if (!current || !this.isRefused(nowMs)) return false
    current.state = 'open'
    // The first retry is immediate. If the free lease is not granted, later tries must not flood the store.
    current.tryAtMs = nowMs + (current.tries === 0 ? 0 : Math.min(longestPauseMs, firstPauseMs * 2 ** current.tries))
    current.tries += 1
    return true
  }

  /** Returns whether the newest heartbeat was answered without a lease and its candidate may still be waiting. */
  isRefused(nowMs: number): boolean {
    const { current, confirmation } = this
    if (!current || current.heartbeat.identity === '' || nowMs >= current.endsAtMs) return false
    return current.state === 'done' && confirmation?.term === undefined
  }

  /** The time left to write the confirmation. */
  leftMs(now: Now): number {
    if (!this.confirmation) return Infinity
    const { sentAtMs, sentAtBootMs, lastsMs } = this.confirmation
    const { nowMs, bootMs } = now
    return lastsMs - Math.max(nowMs - sentAtMs, bootMs - sentAtBootMs)
  }

  forget(): void {
    this.#settle()
    this.pair = undefined
    this.malformed = undefined
    this.mixedAtMs = -Infinity
    this.isFirstSight = true
  }

  /**
   * Called when the status covers the current heartbeat. A heartbeat that did not get the lease may be served again.
   */
  #observed(leader: string | undefined): void {
    const { current } = this
    if (!current || current.heartbeat.identity === '' || leader === current.heartbeat.identity) return this.#settle()
    if (this.confirmation?.term !== undefined) return
    cancelCall(current)
    this.confirmation = undefined
  }

  #settle(): void {
    if (this.current) cancelCall(this.current)
    this.current = undefined
    this.confirmation = undefined
  }
}
