import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import type { Clock } from '../common/clock.ts'
import { isTenureError, TenureError } from '../common/errors.ts'
import { Bound } from '@tenure/internal/bound'
import type { CallOptions } from '../engine/lease-store.ts'
import { RelayedError } from './protocol/answer-codec.ts'
import type { Condition, MultiClusterAnswer, MultiClusterLease } from './protocol/resource-types.ts'
import type { ResourceKey } from './resources.ts'
import type { ResourceObserver, ResourceListener } from './resource-observer.ts'

const defaultTimeoutMs = 10_000
/** Without a watch, the resource is polled: quickly at first, then less often. */
const firstReadMs = 50
const longestReadMs = 1_000
/**
 * How many times a replaced request is written again. Each time, another abandoned call of this store was applied late.
 */
const mostReplaced = 8

/** One call, from its start to its answer or deadline, including all requests that it sends. */
export class RelayedCall implements ResourceListener {
  readonly #key: ResourceKey
  readonly #view: ResourceObserver
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #bound: Bound
  readonly #abort = new AbortController()
  #take: ((answer: MultiClusterAnswer) => void) | undefined
  #expected: { readonly key: string; readonly id: string } | undefined
  #written: { readonly uid: string; readonly generation: number } | undefined
  #replaced = 0
  /** Called when another write has replaced the request of this call. */
  #writeAgain: (() => void) | undefined
  #deletedUid: string | undefined
  /** Why the last answer could not be understood. */
  #misunderstood: string | undefined
  /** The error of the last read. */
  #unread: unknown

  constructor(
    key: ResourceKey,
    view: ResourceObserver,
    clock: Clock,
    { signal, timeoutMs = defaultTimeoutMs }: CallOptions,
  ) {
    this.#key = key
    this.#view = view
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#bound = new Bound(signal, { clock, timeoutMs, late: () => this.#late() })
    this.#bound.onEnd((reason) => this.#abort.abort(reason))
    view.add(this)
  }

  /** Aborts when the call has ended, for any reason. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  throwIfEnded(): void {
    if (this.#bound.ended) throw this.#bound.reason
  }

  race<T>(promise: Promise<T>): Promise<T> {
    return this.#bound.race(promise)
  }

  /** The current time and the time left, to be written into a request. */
  now(): { readonly wallMs: number; readonly timeoutMs: number } {
    return { wallMs: this.#clock.wallMs(), timeoutMs: this.#leftMs() }
  }

  /** Options for one of the requests. Throws after the end of the call, so that nothing more is sent. */
  left(): CallOptions & { readonly timeoutMs: number } {
    this.throwIfEnded()
    return { signal: this.signal, timeoutMs: Math.max(1, this.#leftMs()) }
  }

  /** Resolves with the answer to this id once it has arrived and been understood. */
  expect<T>(key: string, id: string, understand: (answer: MultiClusterAnswer) => T): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      this.#expected = { key, id }
      this.#take = (given) => {
        try {
          resolve(understand(given))
        } catch (error) {
          if (error instanceof RelayedError) return reject(error)
          // The controller may write the answer again. Until then the outcome is unknown.
          this.#misunderstood = messageOf(error)
        }
      }
    })
    // If the request cannot even be written, nobody waits for this promise.
    answer.catch(() => {})
    return answer
  }

  /**
   * Records that the request was written into this resource. `writeAgain` is called if the request is replaced before
   * it is answered. That happens when the write of an earlier, abandoned call in the same slot is applied late.
   */
  wrote(resource: MultiClusterLease, writeAgain: () => void): void {
    const isFirst = this.#written === undefined
    this.#written = resource
    this.#writeAgain = writeAgain
    this.#view.show(resource)
    this.#endIfDeleted()
    if (isFirst) void this.#read()
  }

  seen(resource: MultiClusterLease | undefined): void {
    if (!this.#expected || !resource) return
    const { key, id } = this.#expected
    this.#noteReplaced(resource, key, id)
    const { answers } = resource.status
    const answer = Object.hasOwn(answers, key) ? answers[key] : undefined
    // Ids bind answers to their requests. An answer with another id belongs to another call.
    if (answer?.id === id) this.#take?.(answer)
  }

  deleted(uid: string): void {
    this.#deletedUid = uid
    this.#endIfDeleted()
  }

  unwatched(): void {}

  /** Ends the call. The watch may be kept for the next one. */
  end(keepMs: number): void {
    this.#abort.abort()
    this.#bound.forget()
    this.#view.remove(this, keepMs)
  }

  #leftMs(): number {
    return this.#bound.leftMs ?? 0
  }

  /** Polls the resource, because the watch may be silent or forbidden. The watch only makes the answer faster. */
  async #read(): Promise<void> {
    const silentMs = Math.min(longestReadMs, this.#timeoutMs / 3)
    for (let paceMs = Math.min(firstReadMs, silentMs); ; paceMs = Math.min(paceMs * 2, silentMs)) {
      await pause(this.#clock, this.#view.isLive ? silentMs : paceMs, this.signal)
      if (this.signal.aborted) return
      try {
        await this.#view.look(this.left())
        this.#unread = undefined
      } catch (error) {
        this.#unread = error
      }
    }
  }

  /** Only a later generation counts. An earlier state does not have the request yet. */
  #noteReplaced({ uid, generation, spec }: MultiClusterLease, key: string, id: string): void {
    const written = this.#written
    if (written?.uid !== uid || generation <= written.generation || spec.requests[key]?.id === id) return
    const writeAgain = this.#writeAgain
    this.#writeAgain = undefined
    if (++this.#replaced <= mostReplaced) writeAgain?.()
  }

  #endIfDeleted(): void {
    if (this.#written === undefined || this.#deletedUid !== this.#written.uid) return
    const what = `The ${this.#name()} was deleted before the call was answered.`
    this.#bound.end(
      new TenureError('BACKEND_UNAVAILABLE', `${what} The next call creates it again.`, { retryable: true }),
    )
  }

  #name(): string {
    return `MultiClusterLease "${this.#key.namespace}/${this.#key.name}"`
  }

  /** The error for a call of unknown outcome. It includes anything that may explain the delay. */
  #late(): TenureError {
    const what = `The ${this.#name()} has no answer after ${Math.round(this.#timeoutMs)} ms.`
    return new TenureError('TIMEOUT', `${what} ${this.#why()}`, {
      retryable: true,
      ...(isTenureError(this.#unread) && { cause: this.#unread }),
    })
  }

  #why(): string {
    if (this.#written === undefined) return 'The API server has not confirmed that the request was written.'
    if (this.#misunderstood !== undefined) return `Its answer cannot be understood: ${this.#misunderstood}`
    if (this.#unread !== undefined) return `It cannot be read: ${messageOf(this.#unread)}`
    const { status } = this.#view.newest ?? {}
    const backend = conditionIn(status?.conditions, 'BackendHealthy')
    if (backend) return `The controller cannot use the global store: ${backend}`
    const ready = conditionIn(status?.conditions, 'Ready')
    if (ready) return `The controller reports: ${ready}`
    const ever =
      status?.observedGeneration === undefined
        ? 'No controller has ever answered there'
        : 'A controller has answered before'
    return `${ever}. Is "tenure controller" running in this cluster, for namespace "${this.#key.namespace}"?`
  }
}

/** The message of a condition that is False. */
function conditionIn(conditions: readonly Condition[] | undefined, type: Condition['type']): string | undefined {
  const condition = conditions?.find((one) => one.type === type && one.status === 'False')
  return condition && `${condition.reason}: ${condition.message}`
}
