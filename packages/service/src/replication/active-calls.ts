import { setMaxListeners } from 'node:events'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { Caller, MaybePromise } from '../groups/groups.ts'
import { Places as Room } from '../http/budgets.ts'
import { PeerClient, PeerError, type PeerClientOptions } from './peer-client.ts'
import type { AnswerOf, ArgsOf, VerbName } from './peer-calls.ts'
import { isSameReplica, type ActiveReplica, type ActiveReplicas } from './active-replica.ts'

export type Here = ActiveReplica & { readonly kind: 'here' }
export type Elsewhere = ActiveReplica & { readonly kind: 'elsewhere' }

export interface ActiveCallsOptions extends PeerClientOptions {
  readonly places: ActiveReplicas
}

/** How a call is made on this replica, and whether it may be repeated. */
export interface ActiveCall<Name extends VerbName> {
  here(place: Here): MaybePromise<AnswerOf<Name>>
  /** Whether it does no harm if it is carried out twice. */
  readonly isRepeatable: boolean
  /** Called before the call is repeated although it may have been carried out. */
  onRepeat?(): void
  /** How long the caller waits, in addition to the time that a call takes. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

/** How long a call is held while no replica is active, unless its caller waits for longer anyway. */
const holdMs = 2_000
/** How long a call may take, in addition to what its caller wants to wait. */
const callMs = 10_000
const retryMs = 100
const soonMs = 1_000

/**
 * How many calls may be held or forwarded at once, for one subject and in total. Each keeps its request in memory, and
 * none is answered while the active replica stalls or is replaced.
 */
const mostPerSubject = 8_192
const mostInAll = 50_000

/** Makes each call where the groups are: on this replica while it is active, otherwise on the active replica. */
export class ActiveCalls {
  readonly #options: ActiveCallsOptions
  readonly #places: ActiveReplicas
  readonly #clock: Clock
  readonly #closed = new AbortController()
  readonly #room = new Room(mostPerSubject, mostInAll)
  /** Campaigns may wait for a minute. They must not take the room that renewals need. */
  readonly #campaignRoom = new Room(mostPerSubject, mostInAll)
  #link: PeerClient | undefined

  constructor(options: ActiveCallsOptions) {
    this.#options = options
    this.#places = options.places
    this.#clock = options.clock
    // Every held call listens to it.
    setMaxListeners(0, this.#closed.signal)
  }

  /** Aborts when this replica stops. */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  start(): void {
    void this.#leaveFormerPlaces()
  }

  close(): void {
    this.#closed.abort()
    this.#link?.close()
  }

  /** Moves calls that wait at a replica that is no longer active to the next one. */
  async #leaveFormerPlaces(): Promise<void> {
    const { signal } = this.#closed
    let known = this.#places.now()
    while (!signal.aborted) {
      await this.#places.changed(known, signal)
      const place = this.#places.now()
      // While no active replica is known, the former one may still be active.
      if (place.kind !== 'nowhere' && !isSameReplica(place, known)) this.#leave(place)
      known = place
    }
  }

  #leave(place: ActiveReplica): void {
    const isThere = place.kind === 'elsewhere' && this.#link?.address === place.address
    if (!isThere) this.#link?.close('Another replica is active.')
  }

  /**
   * Answers synchronously if this replica is active and there is nothing to wait for, because there are many renewals.
   * `caller` is undefined for a call that this replica makes for itself.
   */
  ask<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): MaybePromise<AnswerOf<Name>> {
    const place = this.#places.now()
    if (place.kind !== 'here') return this.#passOn(verb, args, call, caller)
    const failed = (error: unknown) => {
      if (!this.#mayRepeat(call, place, error)) throw error
      call.onRepeat?.()
      return this.#passOn(verb, args, call, caller)
    }
    try {
      const answer = call.here(place)
      return answer instanceof Promise ? answer.catch(failed) : answer
    } catch (error) {
      return failed(error)
    }
  }

  async #passOn<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): Promise<AnswerOf<Name>> {
    const room = verb === 'campaign' ? this.#campaignRoom : this.#room
    const leave = room.enter(caller?.subject ?? '')
    if (!leave) throw tooMany()
    try {
      return await this.#askAgain(verb, args, call, caller)
    } finally {
      leave()
    }
  }

  /** Repeats the call until it is answered, or there was no active replica for too long. */
  async #askAgain<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): Promise<AnswerOf<Name>> {
    const untilMs = this.#clock.monotonicMs() + callMs + (call.waitMs ?? 0)
    // After a crash of the active replica, an election takes longer than a call is held. A campaign keeps what is left
    // of its wait, but loses its position in the queue.
    const hold = () => this.#clock.monotonicMs() + Math.max(holdMs, call.waitMs ?? 0)
    let heldUntilMs = hold()
    for (;;) {
      const place = this.#places.now()
      try {
        if (place.kind === 'here') return await call.here(place)
        if (place.kind === 'elsewhere') {
          const deadlineMs = untilMs - this.#clock.monotonicMs()
          const link = this.linkTo(place)
          return await link.call(verb, args, { deadlineMs, signal: call.signal, caller })
        }
      } catch (error) {
        if (!this.#mayRepeat(call, place, error)) {
          throw error instanceof PeerError ? unknownOutcome(error.message, error) : error
        }
        const mayBeDone = !(error instanceof PeerError) || error.mayBeDone
        if (mayBeDone) call.onRepeat?.()
        // The active replica took the call and was then replaced, so the hold starts only now.
        if (error instanceof PeerError && mayBeDone) heldUntilMs = hold()
      }
      await this.#hold(place, Math.min(heldUntilMs, untilMs), call.signal)
    }
  }

  #mayRepeat(call: Pick<ActiveCall<VerbName>, 'isRepeatable'>, place: ActiveReplica, error: unknown): boolean {
    if (this.#closed.signal.aborted) return false
    if (error instanceof PeerError) return call.isRepeatable || !error.mayBeDone
    // The error is from this replica, which was active. A failure because it no longer is says nothing about the call.
    const isOver = place.kind === 'here' && !isSameReplica(this.#places.now(), place)
    return call.isRepeatable && isOver && error instanceof ServiceError && error.code === 'BACKEND_UNAVAILABLE'
  }

  /** Waits until another replica is active, or the same one may be reachable again. */
  async #hold(place: ActiveReplica, untilMs: number, signal: AbortSignal | undefined): Promise<void> {
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

  /** Returns the one connection to the active replica. */
  linkTo({ address }: Elsewhere): PeerClient {
    if (this.#link?.address === address && !this.#link.isClosed) return this.#link
    this.#link?.close()
    this.#link = new PeerClient(address, this.#options)
    return this.#link
  }
}

export function nobody(message = 'No replica of this service is active. Retry the request.'): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', message, { details: { retry_after_ms: soonMs } })
}

export function unknownOutcome(why: string, cause?: PeerError): ServiceError {
  const message = `${why} The outcome of this request is unknown.`
  return new ServiceError('BACKEND_UNAVAILABLE', message, { cause, details: { retry_after_ms: soonMs } })
}

function tooMany(): ServiceError {
  return new ServiceError('RATE_LIMITED', 'Too many calls are waiting for the active replica.', {
    details: { retry_after_ms: soonMs },
  })
}
