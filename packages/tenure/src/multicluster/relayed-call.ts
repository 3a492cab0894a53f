import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import type { Clock, Timer } from '../common/clock.ts'
import { isTenureError, TenureError } from '../common/errors.ts'
import { Bound } from '../clients/http/bound.ts'
import type { CallOptions } from '../engine/lease-store.ts'
import { RelayedError } from './answers.ts'
import type { Condition, MultiClusterAnswer, MultiClusterLease } from './resource.ts'
import type { ResourceKey } from './resources.ts'
import type { ResourceObserver, ResourceListener } from './resource-observer.ts'

const defaultTimeoutMs = 10_000
/** Without a watch, the resource is polled: quickly at first, then less often. */
const firstReadMs = 50
const longestReadMs = 1_000

/** One call, from its start to its answer or deadline, including all requests that it sends. */
export class RelayedCall implements ResourceListener {
  readonly #key: ResourceKey
  readonly #view: ResourceObserver
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #deadlineMs: number
  readonly #bound: Bound
  readonly #abort = new AbortController()
  readonly #timer: Timer
  #take: ((answer: MultiClusterAnswer) => void) | undefined
  #expected: { readonly key: string; readonly id: string } | undefined
  #writtenUid: string | undefined
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
    this.#deadlineMs = clock.monotonicMs() + timeoutMs
    this.#bound = new Bound(signal)
    this.#bound.onEnd((reason) => this.#abort.abort(reason))
    this.#timer = clock.setTimer(timeoutMs, () => this.#bound.end(this.#late()))
    view.add(this)
  }

  /** Aborts when the call is over, however it ended. */
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

  /** Records that the request was written into this resource. */
  wrote(resource: MultiClusterLease): void {
    this.#writtenUid = resource.uid
    this.#view.show(resource)
    this.#endIfDeleted()
    void this.#read()
  }

  seen(resource: MultiClusterLease | undefined): void {
    if (!this.#expected || !resource) return
    const { key, id } = this.#expected
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
    this.#timer.cancel()
    this.#abort.abort()
    this.#bound.forget()
    this.#view.remove(this, keepMs)
  }

  #leftMs(): number {
    return this.#deadlineMs - this.#clock.monotonicMs()
  }

  /** Polls the resource. The watch may be silent or forbidden. It only makes the answer faster. */
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

  #endIfDeleted(): void {
    if (this.#writtenUid === undefined || this.#deletedUid !== this.#writtenUid) return
    const what = `The ${this.#name()} was deleted before the call was answered.`
    this.#bound.end(
      new TenureError('BACKEND_UNAVAILABLE', `${what} The next call creates it again.`, { retryable: true }),
    )
  }

  #name(): string {
    return `MultiClusterLease "${this.#key.namespace}/${this.#key.name}"`
  }

  /** The error for a call of unknown outcome. It includes what may explain the delay. */
  #late(): TenureError {
    const what = `The ${this.#name()} has no answer after ${Math.round(this.#timeoutMs)} ms.`
    return new TenureError('TIMEOUT', `${what} ${this.#why()}`, {
      retryable: true,
      ...(isTenureError(this.#unread) && { cause: this.#unread }),
    })
  }

  #why(): string {
    if (this.#writtenUid === undefined) return 'The API server has not confirmed that the request was written.'
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
