import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import type { Clock, Timer } from '../clock.ts'
import { isTenureError, TenureError } from '../errors.ts'
import { Bound } from '../http/bound.ts'
import type { CallOptions } from '../lease-store.ts'
import { RelayedError } from './answers.ts'
import type { Condition, MultiClusterAnswer, MultiClusterLease } from './resource.ts'
import type { ResourceKey } from './resources.ts'
import type { ResourceView, Viewer } from './resource-view.ts'

const defaultTimeoutMs = 10_000
/** Where nothing is shown by itself, it is read: soon at first, then less often. */
const firstReadMs = 50
const longestReadMs = 1_000

/** One call, from its beginning to its answer or its deadline, over all the requests that it takes. */
export class RelayedCall implements Viewer {
  readonly #key: ResourceKey
  readonly #view: ResourceView
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
  /** What was wrong with the answer. */
  #misunderstood: string | undefined
  /** What was wrong with the last read. */
  #unread: unknown

  constructor(
    key: ResourceKey,
    view: ResourceView,
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

  /** What is written into a request. */
  now(): { readonly wallMs: number; readonly timeoutMs: number } {
    return { wallMs: this.#clock.wallMs(), timeoutMs: this.#leftMs() }
  }

  /** For one of the requests. After the end nothing is sent any more. */
  left(): CallOptions & { readonly timeoutMs: number } {
    this.throwIfEnded()
    return { signal: this.signal, timeoutMs: Math.max(1, this.#leftMs()) }
  }

  /** The answer to this id, once it is there and understood. */
  expect<T>(key: string, id: string, understand: (answer: MultiClusterAnswer) => T): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      this.#expected = { key, id }
      this.#take = (given) => {
        try {
          resolve(understand(given))
        } catch (error) {
          if (error instanceof RelayedError) return reject(error)
          // It may be written again. Until then nothing is known.
          this.#misunderstood = messageOf(error)
        }
      }
    })
    // If the request cannot even be written, nobody waits for its answer.
    answer.catch(() => {})
    return answer
  }

  /** The request is in this resource, and waits there. */
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
    // Ids bind answers to their questions: the answer to any other call is not ours.
    if (answer?.id === id) this.#take?.(answer)
  }

  deleted(uid: string): void {
    this.#deletedUid = uid
    this.#endIfDeleted()
  }

  unwatched(): void {}

  /** Nothing is waited for any more. The watch may be kept for a next call. */
  end(keepMs: number): void {
    this.#timer.cancel()
    this.#abort.abort()
    this.#bound.forget()
    this.#view.remove(this, keepMs)
  }

  #leftMs(): number {
    return this.#deadlineMs - this.#clock.monotonicMs()
  }

  /** The watch may be silent, or not allowed: nothing depends on it but speed. */
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

  /** The outcome is unknown. What is known may tell why. */
  #late(): TenureError {
    const what = `The ${this.#name()} has no answer after ${Math.round(this.#timeoutMs)} ms.`
    return new TenureError('TIMEOUT', `${what} ${this.#why()}`, {
      retryable: true,
      ...(isTenureError(this.#unread) && { cause: this.#unread }),
    })
  }

  #why(): string {
    if (this.#writtenUid === undefined) return 'The API server has not confirmed that the request was written.'
    if (this.#misunderstood !== undefined) return `What was answered is not understood: ${this.#misunderstood}`
    if (this.#unread !== undefined) return `It cannot be read: ${messageOf(this.#unread)}`
    const { status } = this.#view.newest ?? {}
    const backend = conditionIn(status?.conditions, 'BackendHealthy')
    if (backend) return `The controller cannot work with the global store: ${backend}`
    const ready = conditionIn(status?.conditions, 'Ready')
    if (ready) return `The controller says: ${ready}`
    const ever =
      status?.observedGeneration === undefined
        ? 'No controller has ever answered in it'
        : 'A controller has answered before'
    return `${ever}. Is "tenure controller" running in this cluster, for namespace "${this.#key.namespace}"?`
  }
}

/** What a condition that does not hold says. */
function conditionIn(conditions: readonly Condition[] | undefined, type: Condition['type']): string | undefined {
  const condition = conditions?.find((one) => one.type === type && one.status === 'False')
  return condition && `${condition.reason}: ${condition.message}`
}
