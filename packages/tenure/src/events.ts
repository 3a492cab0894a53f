import type { LossReason } from './errors.ts'
import type { LeaseRecord } from './lease-store.ts'

/** Which candidate of which election something is reported of. */
export interface Origin {
  readonly election: string
  /** The store's `namespace`, if it has one: elections of two namespaces may share a name. */
  readonly namespace?: string
  readonly identity: string
}

/** What an elector reports. `gap` means events that a slow reader missed. */
export type ElectionEvent = Origin &
  (
    | { readonly type: 'new-leader'; readonly record: LeaseRecord }
    | { readonly type: 'elected'; readonly term: number; readonly record: LeaseRecord }
    | { readonly type: 'renewed'; readonly term: number; readonly record: LeaseRecord }
    | { readonly type: 'renew-failed'; readonly term: number; readonly failures: number; readonly error: unknown }
    | { readonly type: 'lost'; readonly term: number; readonly reason: LossReason }
    | { readonly type: 'error'; readonly error: unknown }
    | { readonly type: 'gap'; readonly missed: number }
  )

type Anonymous<T> = T extends unknown ? Omit<T, keyof Origin> : never

/** An event of an elector that knows itself. */
export type EventBody = Anonymous<ElectionEvent>

/** One store call, for metrics. */
export interface CallReport extends Origin {
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
  readonly onEvent?: ((event: ElectionEvent) => void) | undefined
  readonly onCall?: ((report: CallReport) => void) | undefined
}

/** An {@link Observer} with both methods, such as those that count. */
export interface WholeObserver extends Observer {
  onEvent(event: ElectionEvent): void
  onCall(report: CallReport): void
}

/** Which candidate of which election an event is about. */
export function originOf({ election, namespace, identity }: Origin): Origin {
  return { election, ...(namespace !== undefined && { namespace }), identity }
}

const queueLimit = 256

/** One reader of `elector.events()`: a bounded queue that counts what it dropped. */
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

  /** The queue was full until now, so everything missed is between its end and whatever comes next. */
  #closeGap(next: ElectionEvent): void {
    if (this.#missed === 0) return
    this.#queue.push({ type: 'gap', missed: this.#missed, ...originOf(next) })
    this.#missed = 0
  }
}
