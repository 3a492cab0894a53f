import { setMaxListeners } from 'node:events'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { Caller, MaybePromise } from '../groups/port.ts'
import { SubjectSlots as Room } from '../common/budgets.ts'
import { PeerClient, PeerError, type PeerClientOptions } from './peer-client.ts'
import type { AnswerOf, ArgsOf, PeerCallName } from './peer-calls.ts'
import {
  isSameActiveTerm,
  type ActiveReplica,
  type ActiveReplicaSource,
  type LocalReplica,
  type RemoteReplica,
} from './active-replica.ts'

export interface ActiveCallsOptions extends PeerClientOptions {
  readonly activeReplicas: ActiveReplicaSource
}

/** How a call is made on this replica, and whether it may be repeated. */
export interface ActiveCall<Name extends PeerCallName> {
  runLocally(activeReplica: LocalReplica): MaybePromise<AnswerOf<Name>>
  /** Whether carrying out the call twice does no harm. */
  readonly isRepeatable: boolean
  /** Called before the call is repeated although it may have been carried out. */
  onRepeat?(): void
  /** How long the caller wants to wait, in addition to the duration of the call itself. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

/** How long a call is held while no replica is active, unless its caller waits for longer anyway. */
const holdMs = 2_000
/** How long a call may take, in addition to the time that its caller wants to wait. */
const callMs = 10_000
const retryMs = 100
const soonMs = 1_000

/**
 * How many calls may be held or forwarded at once, for one subject and in total. Each of these calls keeps its request
 * in memory, and none is answered while the active replica stalls or is replaced.
 */
const maxPerSubject = 8_192
const maxInAll = 50_000

/** Makes each call on the active replica, which may be this one. */
export class ActiveCalls {
  readonly #options: ActiveCallsOptions
  readonly #activeReplicas: ActiveReplicaSource
  readonly #clock: Clock
  readonly #closed = new AbortController()
  readonly #room = new Room(maxPerSubject, maxInAll)
  /** Campaigns may wait for a minute. They must not take slots that renewals need. */
  readonly #campaignRoom = new Room(maxPerSubject, maxInAll)
  #client: PeerClient | undefined

  constructor(options: ActiveCallsOptions) {
    this.#options = options
    this.#activeReplicas = options.activeReplicas
    this.#clock = options.clock
    // Every held call listens to this signal.
    setMaxListeners(0, this.#closed.signal)
  }

  /** Aborts when this replica stops. */
  get closed(): AbortSignal {
    return this.#closed.signal
  }

  start(): void {
    void this.#leaveFormerTerms()
  }

  close(): void {
    this.#closed.abort()
    this.#client?.close()
  }

  /** Moves calls that wait at a replica that is no longer active to the next one. */
  async #leaveFormerTerms(): Promise<void> {
    const { signal } = this.#closed
    let known = this.#activeReplicas.now()
    while (!signal.aborted) {
      await this.#activeReplicas.changed(known, signal)
      const activeReplica = this.#activeReplicas.now()
      // While no active replica is known, the last known one might still be active.
      if (activeReplica.kind !== 'unknown' && !isSameActiveTerm(activeReplica, known)) this.#leave(activeReplica)
      known = activeReplica
    }
  }

  #leave(activeReplica: ActiveReplica): void {
    const isThere = activeReplica.kind === 'remote' && this.#client?.address === activeReplica.address
    if (!isThere) this.#client?.close('Another replica is active.')
  }

  /**
   * Answers synchronously if this replica is active and there is nothing to wait for, which keeps frequent renewals
   * cheap. `caller` is undefined for a call that this replica makes for itself.
   */
  ask<Name extends PeerCallName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): MaybePromise<AnswerOf<Name>> {
    const activeReplica = this.#activeReplicas.now()
    if (activeReplica.kind !== 'local') return this.#forward(verb, args, call, caller)
    const failed = (error: unknown) => {
      if (!this.#mayRepeat(call, activeReplica, error)) throw error
      call.onRepeat?.()
      return this.#forward(verb, args, call, caller)
    }
    try {
      const answer = call.runLocally(activeReplica)
      return answer instanceof Promise ? answer.catch(failed) : answer
    } catch (error) {
      return failed(error)
    }
  }

  async #forward<Name extends PeerCallName>(
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

  /** Repeats the call until it is answered, or there has been no active replica for too long. */
  async #askAgain<Name extends PeerCallName>(
    verb: Name,
    args: ArgsOf<Name>,
    call: ActiveCall<Name>,
    caller: Caller | undefined,
  ): Promise<AnswerOf<Name>> {
    const untilMs = this.#clock.monotonicMs() + callMs + (call.waitMs ?? 0)
    // Electing a new active replica after a crash takes longer than `holdMs`, so a campaign is held for its full wait.
    // It loses its position in the queue.
    const hold = () => this.#clock.monotonicMs() + Math.max(holdMs, call.waitMs ?? 0)
    let heldUntilMs = hold()
    for (;;) {
      const activeReplica = this.#activeReplicas.now()
      try {
        if (activeReplica.kind === 'local') return await call.runLocally(activeReplica)
        if (activeReplica.kind === 'remote') {
          const deadlineMs = untilMs - this.#clock.monotonicMs()
          const client = this.clientFor(activeReplica)
          return await client.call(verb, args, { deadlineMs, signal: call.signal, caller })
        }
      } catch (error) {
        if (!this.#mayRepeat(call, activeReplica, error)) {
          throw error instanceof PeerError ? unknownOutcome(error.message, error) : error
        }
        const mayBeDone = !(error instanceof PeerError) || error.mayBeDone
        if (mayBeDone) call.onRepeat?.()
        // The active replica took the call and was then replaced, so the time limit of the hold starts only now.
        if (error instanceof PeerError && mayBeDone) heldUntilMs = hold()
      }
      await this.#hold(activeReplica, Math.min(heldUntilMs, untilMs), call.signal)
    }
  }

  #mayRepeat(
    call: Pick<ActiveCall<PeerCallName>, 'isRepeatable'>,
    activeReplica: ActiveReplica,
    error: unknown,
  ): boolean {
    if (this.#closed.signal.aborted) return false
    if (error instanceof PeerError) return call.isRepeatable || !error.mayBeDone
    // The error is from this replica, which was active. If the call failed because this replica is no longer active,
    // the error says nothing about the call.
    const isOver = activeReplica.kind === 'local' && !isSameActiveTerm(this.#activeReplicas.now(), activeReplica)
    return call.isRepeatable && isOver && error instanceof ServiceError && error.code === 'BACKEND_UNAVAILABLE'
  }

  /** Waits until another replica is active, or the same one may be reachable again. */
  async #hold(activeReplica: ActiveReplica, untilMs: number, signal: AbortSignal | undefined): Promise<void> {
    const leftMs = untilMs - this.#clock.monotonicMs()
    if (leftMs <= 0 || this.#closed.signal.aborted || signal?.aborted) throw noActiveReplica()
    const over = new AbortController()
    const end = () => over.abort()
    const signals = [this.#closed.signal, ...(signal ? [signal] : [])]
    for (const each of signals) each.addEventListener('abort', end)
    void this.#activeReplicas.changed(activeReplica, over.signal).then(end)
    await pause(this.#clock, activeReplica.kind === 'unknown' ? leftMs : Math.min(leftMs, retryMs), over.signal)
    for (const each of signals) each.removeEventListener('abort', end)
    end()
  }

  /** Returns the one connection to the active replica. */
  clientFor({ address }: RemoteReplica): PeerClient {
    if (this.#client?.address === address && !this.#client.isClosed) return this.#client
    this.#client?.close()
    this.#client = new PeerClient(address, this.#options)
    return this.#client
  }
}

export function noActiveReplica(message = 'No replica of this service is active. Retry the request.'): ServiceError {
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
