import { pause } from '@tenure/internal/pause'
import type { Clock } from '../../common/clock.ts'
import type { TenureError } from '../../common/errors.ts'
import { Elector } from '../elector.ts'
import type { LeaseRecord, LeaseStore } from '../lease-store.ts'
import { MemberObserver } from './members.ts'
import { Presence } from './presence.ts'
import { memberNamed } from './present-members.ts'
import { readLease } from './read-lease.ts'

/** A request that the leader of an election hand over to a candidate. */
export interface HandOverRequest {
  readonly election: string
  /** The identity of the candidate that should lead. */
  readonly to: string
  /** The identity of the request's own seat. */
  readonly identity: string
  /** How long to wait for the leader to react, for its work to settle, and for the candidate to take over. */
  readonly waitMs: number
  /** The timeout of one call. */
  readonly timeoutMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** The outcome of a request. */
export type HandOverOutcome =
  | { readonly result: 'handed-over' | 'already-leads'; readonly term: number }
  | { readonly result: 'no-leader' | 'not-present' | 'not-eligible' }
  /** The leader released the lease, and nobody has taken it yet. */
  | { readonly result: 'nobody-leads'; readonly holder: string; readonly term: number }
  /** Another process than the candidate leads a later term. */
  | { readonly result: 'led-by-other'; readonly holder: string; readonly term: number }
  /**
   * The leader still leads. `isPresent` is false if it has no seat, so that it reads no requests. `isCandidateLive` is
   * false if the candidate may have crashed: its seat was not renewed during the request.
   */
  | {
      readonly result: 'no-reaction'
      readonly holder: string
      readonly term: number
      readonly isPresent: boolean
      readonly isCandidateLive: boolean
    }
  /** The request got no seat. */
  | { readonly result: 'no-seat'; readonly problem: TenureError | undefined }

/**
 * The lease of the request's seat. It only matters if this process crashes: the request then ends when this lease
 * expires.
 */
const leaseDurationMs = 15_000
const pollIntervalMs = 500

/**
 * Asks the leader of an election to hand over to a candidate, and waits for the outcome. The request takes a seat, which
 * a leader with presence reads within one retry interval. It is not a member. The seat is released before this settles.
 */
export async function requestHandOver(store: LeaseStore, request: HandOverRequest): Promise<HandOverOutcome> {
  const { election, to, waitMs, clock, signal } = request
  const read = { clock, timeoutMs: request.timeoutMs, signal }
  const observer = new MemberObserver(store, election, read)
  const { record: before } = await readLease(store, election, read)
  if (!before || before.released) return { result: 'no-leader' }
  if (before.holder === to) return { result: 'already-leads', term: before.term }
  await observer.look()
  const obstacle = obstacleTo(to, observer)
  if (obstacle) return obstacle
  let problem: TenureError | undefined
  const presence = new Presence({
    generation: undefined,
    maxMembers: observer.seatCount,
    metadata: {},
    handOverTo: to,
    ofTerm: before.term,
    store,
    group: election,
    identity: request.identity,
    leaseDurationMs,
    driftRatio: 0.05,
    releaseOnCrash: undefined,
    clock,
    createElector: (options) => new Elector(options),
    withoutSeat: 'It has not asked the leader to hand over',
    onProblem: (error) => (problem = error),
  })
  presence.start()
  try {
    let hadSeat = false
    let isReleased = false
    let isCandidateLive = memberNamed(observer.present(), to)?.live ?? false
    const untilMs = clock.monotonicMs() + waitMs
    while (clock.monotonicMs() < untilMs) {
      await pause(clock, pollIntervalMs, signal)
      signal.throwIfAborted()
      hadSeat ||= presence.seat !== undefined
      const { record } = await readLease(store, election, read)
      const outcome = record && outcomeOf(record, before, to)
      if (outcome) return outcome
      isReleased = record?.released === true
      if (isCandidateLive || isReleased) continue
      // One read cannot tell whether the candidate has crashed.
      await observer.look({ undecidedOnly: true })
      const candidate = memberNamed(observer.present(), to)
      if (!candidate) return { result: 'not-present' }
      isCandidateLive = candidate.live
    }
    const { holder, term } = before
    if (isReleased) return { result: 'nobody-leads', holder, term }
    if (!hadSeat) return { result: 'no-seat', problem }
    await observer.look()
    const isPresent = memberNamed(observer.present(), holder) !== undefined
    return obstacleTo(to, observer) ?? { result: 'no-reaction', holder, term, isPresent, isCandidateLive }
  } finally {
    await presence.stop()
  }
}

function obstacleTo(to: string, observer: MemberObserver): HandOverOutcome | undefined {
  const member = memberNamed(observer.present(), to)
  if (!member) return { result: 'not-present' }
  return member.eligible ? undefined : { result: 'not-eligible' }
}

/** Undefined while the earlier term has not ended, or nobody leads after it yet. */
function outcomeOf(record: LeaseRecord, before: LeaseRecord, to: string): HandOverOutcome | undefined {
  const { holder, term, released } = record
  if (released || term <= before.term) return undefined
  return holder === to ? { result: 'handed-over', term } : { result: 'led-by-other', holder, term }
}
