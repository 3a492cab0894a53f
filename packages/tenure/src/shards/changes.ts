/** The changes that a process sees: of its own shards, and of the members. */
import { AsyncQueue } from '@tenure/internal/async-queue'
import type { Observer, WholeObserver } from '../engine/events.ts'
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

/** The group and the process that a report is about. */
export interface ShardOrigin {
  readonly group: string
  /** The store's `namespace`, if it has one. Groups in two namespaces may have the same name. */
  readonly namespace?: string
  readonly identity: string
}

/**
 * A change, with the group and the process that sees it.
 *
 * @example
 * const onShard = (event: ShardEvent) => {
 *   if (event.type === 'gained') console.log(event.group, event.identity, event.shard)
 * }
 */
export type ShardEvent = ShardOrigin & ShardChange

/**
 * Why a shard has no owner. `revoked`, `free` and `unknown` are as in the assignment. `orphaned`: the assignment still
 * names an owner, but that member is gone, so the coordinator waits until its lease has certainly ended.
 */
export type UnownedState = 'revoked' | 'free' | 'unknown' | 'orphaned'

/** What the coordinator of a group sees, after each read of the seats and each change of the assignment. */
export interface AssignmentReport extends ShardOrigin {
  /** How many members can own shards. */
  readonly members: number
  /** How many shards have an owner. */
  readonly owned: number
  /** How many shards have none, by state. */
  readonly unowned: Readonly<Record<UnownedState, number>>
  /**
   * For each state, how long the shards in it have been without an owner, at most, in milliseconds. Counts from when this
   * coordinator first saw it. 0 if there are no such shards.
   */
  readonly longestUnownedMs: Readonly<Record<UnownedState, number>>
}

/**
 * An observer of the coordinator's election that also receives the changes of shards. In the process that coordinates,
 * `onAssignment` receives the state of the whole group. An observer is called synchronously and never awaited. Errors
 * that it throws are caught and logged.
 *
 * @example
 * const observer: ShardObserver = { onShard: (event) => logger.info(event) }
 */
export interface ShardObserver extends Observer {
  readonly onShard?: ((event: ShardEvent) => void) | undefined
  readonly onAssignment?: ((report: AssignmentReport) => void) | undefined
}

/** A {@link ShardObserver} with all methods, such as the ones that collect metrics. */
export interface WholeShardObserver extends WholeObserver {
  onShard(event: ShardEvent): void
  onAssignment(report: AssignmentReport): void
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
