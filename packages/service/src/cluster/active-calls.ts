import { setMaxListeners } from 'node:events'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { Caller, MaybePromise } from '../groups/groups.ts'
import { Places as Room } from '../http/budgets.ts'
import { LinkClient, LinkError, type LinkClientOptions } from './link-client.ts'
import type { AnswerOf, ArgsOf, VerbName } from './link-verbs.ts'
import { isSamePlace, type Place, type Places } from './place.ts'

export type Here = Place & { readonly kind: 'here' }
export type Elsewhere = Place & { readonly kind: 'elsewhere' }

export interface ActiveCallsOptions extends LinkClientOptions {
  readonly places: Places
}

/** How a call is made here, and how it is passed on. */
export interface ActiveCall<Name extends VerbName> {
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
 * Calls that are held or passed on at once, by one subject and in all. Each keeps its request in memory, and while the
 * active replica stalls or is replaced none of them is answered.
 */
const mostPerSubject = 8_192
const mostInAll = 50_000

/** Makes each call where the groups are: here, or at the active replica. */
export class ActiveCalls {
  readonly #options: ActiveCallsOptions
  readonly #places: Places
  readonly #clock: Clock
  readonly #closed = new AbortController()
  readonly #room = new Room(mostPerSubject, mostInAll)
  #link: LinkClient | undefined

  constructor(options: ActiveCallsOptions) {
    this.#options = options
    this.#places = options.places
    this.#clock = options.clock
    // Every call that is held listens to it.
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

  /**
   * At once where this replica is active, and nothing is to wait for: renewals are many. `caller` is for whom it is made;
   * undefined: for this replica itself.
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
    const leave = this.#room.enter(caller?.subject ?? '')
    if (!leave) throw tooMany()
    try {
      return await this.#askAgain(verb, args, call, caller)
    } finally {
      leave()
    }
  }

  /** Until it is answered, or there was nobody to answer it for too long. */
  async #askAgain<Name extends VerbName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): Promise<AnswerOf<Name>> {
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
          return await link.call(verb, args, { deadlineMs, signal: call.signal, caller })
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

  #mayRepeat(call: Pick<ActiveCall<VerbName>, 'isRepeatable'>, place: Place, error: unknown): boolean {
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

  /** The one connection to the active replica. */
  linkTo({ address }: Elsewhere): LinkClient {
    if (this.#link?.address === address && !this.#link.isClosed) return this.#link
    this.#link?.close()
    this.#link = new LinkClient(address, this.#options)
    return this.#link
  }
}

export function nobody(message = 'No replica of this service is active.'): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', message, { details: { retry_after_ms: soonMs } })
}

export function unknownOutcome(why: string, cause?: LinkError): ServiceError {
  const message = `${why} Whether it was done is not known.`
  return new ServiceError('BACKEND_UNAVAILABLE', message, { cause, details: { retry_after_ms: soonMs } })
}

function tooMany(): ServiceError {
  return new ServiceError('RATE_LIMITED', 'Too many calls wait for the active replica.', {
    details: { retry_after_ms: soonMs },
  })
}
