/** The changes that a process sees: of its own shards, and of the members. */
import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Observer } from '../engine/events.ts'
import type { Metadata } from '../engine/lease-store.ts'

/** A member of a group, as its seat shows it. */
export interface ShardMember {
  readonly identity: string
  /** What the member passed as `metadata`, such as its address. */
  readonly metadata: Metadata
  /** The number of the member's seat. */
  readonly seat: number
  /** How many shards it owns, by the newest assignment that was seen. */
  readonly shards: number
  readonly isMe: boolean
}

/**
 * A change that this process sees. `gained`: it owns the shard. `revoked`: it must stop its work on the shard within
 * `settleWithinMs`, and `lost` follows. `lost`: it no longer owns the shard. `members`: other processes own shards
 * than before, or other numbers of them. `error`: something failed. `gap`: a slow reader missed changes.
 *
 * @example
 * for await (const change of shards.changes({ signal })) {
 *   if (change.type === 'lost') closeConnectionsOf(change.shard)
 * }
 */
export type ShardChange =
  | { readonly type: 'gained'; readonly shard: number; readonly name: string | undefined; readonly token: number }
  | {
      readonly type: 'revoked'
      readonly shard: number
      readonly name: string | undefined
      readonly token: number
      readonly settleWithinMs: number
    }
  | {
      readonly type: 'lost'
      readonly shard: number
      readonly name: string | undefined
      readonly token: number
      /** `handed-over`: its work has settled. `seat-lost`: the lease of this process's seat has ended. */
      readonly reason: 'handed-over' | 'seat-lost'
    }
  | { readonly type: 'members'; readonly members: readonly ShardMember[] }
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'gap'; readonly missed: number }

/**
 * An observer of the coordinator's election that also receives the changes of shards. It is called synchronously and
 * never awaited. Errors that it throws are caught and logged.
 *
 * @example
 * const observer: ShardObserver = { onShard: (change) => logger.info(change) }
 */
export interface ShardObserver extends Observer {
  readonly onShard?: ((change: ShardChange) => void) | undefined
}

const queueLimit = 1_024

/** The queue of one reader of changes. It is bounded and counts the changes that it dropped. */
export class ChangeQueue implements AsyncIterableIterator<ShardChange, undefined> {
  readonly #queue = new AsyncQueue<ShardChange>('all')
  readonly #onEnd: () => void
  #missed = 0

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd
  }

  push(change: ShardChange): void {
    if (this.#queue.isEnded) return
    if (this.#queue.size < queueLimit) this.#queue.put(change)
    else this.#missed += 1
  }

  /** Ends the queue. Changes that are already queued can still be read. */
  end(): void {
    this.#queue.end()
    this.#onEnd()
  }

  async next(): Promise<IteratorResult<ShardChange, undefined>> {
    for (;;) {
      const value = this.#queue.take()
      if (value) {
        // The queue was full until now, so all missed changes belong after its last change.
        if (this.#missed > 0) this.#queue.putLast({ type: 'gap', missed: this.#missed })
        this.#missed = 0
        return { done: false, value }
      }
      if (this.#queue.isEnded) return { done: true, value: undefined }
      await this.#queue.ready()
    }
  }

  async return(): Promise<IteratorResult<ShardChange, undefined>> {
    this.#queue.clear()
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
