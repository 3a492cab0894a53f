import { AsyncQueue } from '@tenure/internal/async-queue'
import type { LossReason } from '../common/errors.ts'
import type { LeaseRecord } from './lease-store.ts'

/** The election and the candidate that a report is about. */
export interface Origin {
  readonly election: string
  /** The store's `namespace`, if it has one. Elections in two namespaces may have the same name. */
  readonly namespace?: string
  readonly identity: string
}

/**
 * An event that an elector reports. `eligibility`: the answer from the option `eligible` has changed. `gap` represents
 * events that a slow reader missed.
 */
export type ElectionEvent = Origin &
  (
    | { readonly type: 'new-leader'; readonly record: LeaseRecord }
    | { readonly type: 'elected'; readonly term: number; readonly record: LeaseRecord }
    | { readonly type: 'renewed'; readonly term: number; readonly record: LeaseRecord }
    | { readonly type: 'renew-failed'; readonly term: number; readonly failures: number; readonly error: unknown }
    | { readonly type: 'lost'; readonly term: number; readonly reason: LossReason }
    | { readonly type: 'eligibility'; readonly eligible: boolean }
    | { readonly type: 'error'; readonly error: unknown }
    | { readonly type: 'gap'; readonly missed: number }
  )

type Anonymous<T> = T extends unknown ? Omit<T, keyof Origin> : never

/** An event without its origin, which the elector adds. */
export type EventBody = Anonymous<ElectionEvent>

/** One store call, for metrics. */
export interface CallReport extends Origin {
  readonly verb: 'read' | 'acquire' | 'renew' | 'release'
  readonly result: 'ok' | 'refused' | 'failed'
  readonly durationMs: number
  /**
   * Whether a guard would release the lease if this process crashed after this call. Undefined without
   * `releaseOnCrash`.
   */
  readonly isGuarded?: boolean | undefined
  /** Whether this process held a seat among the members after this call. Undefined without `present`. */
  readonly isPresent?: boolean | undefined
}

/**
 * Receives events for logs and metrics. Its methods are called synchronously and never awaited. Errors that they throw
 * are caught and logged.
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

/** An {@link Observer} with both methods, such as the ones that collect metrics. */
export interface WholeObserver extends Observer {
  onEvent(event: ElectionEvent): void
  onCall(report: CallReport): void
}

/** Picks the origin fields of an event or an elector. */
export function originOf({ election, namespace, identity }: Origin): Origin {
  return { election, ...(namespace !== undefined && { namespace }), identity }
}

const queueLimit = 256

/** The queue of one `elector.events()` reader. It is bounded and counts the events it dropped. */
export class EventQueue implements AsyncIterableIterator<ElectionEvent, undefined> {
  readonly #queue = new AsyncQueue<ElectionEvent>('all')
  #missed = 0
  readonly #onEnd: (queue: EventQueue) => void

  constructor(onEnd: (queue: EventQueue) => void) {
    this.#onEnd = onEnd
  }

  push(event: ElectionEvent): void {
    if (this.#queue.isEnded) return
    if (this.#queue.size < queueLimit) this.#queue.put(event)
    else this.#missed += 1
  }

  /** Ends the queue. Events that are already queued can still be read. */
  end(): void {
    this.#queue.end()
    this.#onEnd(this)
  }

  async next(): Promise<IteratorResult<ElectionEvent, undefined>> {
    for (;;) {
      const event = this.#queue.take()
      if (event) {
        this.#closeGap(event)
        return { done: false, value: event }
      }
      if (this.#queue.isEnded) return { done: true, value: undefined }
      await this.#queue.ready()
    }
  }

  async return(): Promise<IteratorResult<ElectionEvent, undefined>> {
    this.#queue.clear()
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Queues a `gap` event. The queue was full until now, so all missed events belong after its last event. */
  #closeGap(next: ElectionEvent): void {
    if (this.#missed === 0) return
    this.#queue.putLast({ type: 'gap', missed: this.#missed, ...originOf(next) })
    this.#missed = 0
  }
}
