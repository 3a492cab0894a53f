import type { LossReason } from './errors.ts'
import type { LeaseRecord } from './lease-store.ts'

/** What an elector reports. `gap` stands for events that a slow reader missed. */
export type ElectionEvent = { readonly election: string; readonly identity: string } & (
  | { readonly type: 'new-leader'; readonly record: LeaseRecord }
  | { readonly type: 'elected'; readonly term: number; readonly record: LeaseRecord }
  | { readonly type: 'renewed'; readonly term: number; readonly record: LeaseRecord }
  | { readonly type: 'renew-failed'; readonly term: number; readonly failures: number; readonly error: unknown }
  | { readonly type: 'lost'; readonly term: number; readonly reason: LossReason }
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'gap'; readonly missed: number }
)

/** One store call, for metrics. */
export interface CallReport {
  readonly election: string
  readonly identity: string
  readonly verb: 'read' | 'acquire' | 'renew' | 'release'
  readonly result: 'ok' | 'refused' | 'failed'
  readonly durationMs: number
}

/**
 * Where logs and metrics hook in. It is called at once, never awaited, and what it throws is contained.
 *
 * @example
 * const observer: Observer = {
 *   onEvent: (event) => logger.info(event),
 *   onCall: ({ verb, result, durationMs }) => histogram.record(durationMs, { verb, result }),
 * }
 */
export interface Observer {
  onEvent?(event: ElectionEvent): void
  onCall?(report: CallReport): void
}

const queueLimit = 256

/** One reader of `elector.events()`: a bounded queue that tells how much it dropped. */
export class EventQueue implements AsyncIterableIterator<ElectionEvent, undefined> {
  readonly #queue: ElectionEvent[] = []
  #missed = 0
  #ended = false
  #wakes: (() => void)[] = []
  readonly #onEnd: (queue: EventQueue) => void

  constructor(onEnd: (queue: EventQueue) => void) {
    this.#onEnd = onEnd
  }

  push(event: ElectionEvent): void {
    if (this.#ended) return
    if (this.#queue.length < queueLimit) this.#queue.push(event)
    else this.#missed += 1
    this.#wakeAll()
  }

  /** What is queued can still be read. */
  end(): void {
    this.#ended = true
    this.#onEnd(this)
    this.#wakeAll()
  }

  async next(): Promise<IteratorResult<ElectionEvent, undefined>> {
    for (;;) {
      const event = this.#queue.shift()
      if (event) {
        this.#closeGap(event)
        return { done: false, value: event }
      }
      if (this.#ended) return { done: true, value: undefined }
      await new Promise<void>((resolve) => this.#wakes.push(resolve))
    }
  }

  async return(): Promise<IteratorResult<ElectionEvent, undefined>> {
    this.#queue.length = 0
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #wakeAll(): void {
    for (const wake of this.#wakes.splice(0)) wake()
  }

  /** The queue was full until now, so everything missed lies between its end and whatever comes next. */
  #closeGap({ election, identity }: ElectionEvent): void {
    if (this.#missed === 0) return
    this.#queue.push({ type: 'gap', missed: this.#missed, election, identity })
    this.#missed = 0
  }
}
