import { nextTurn } from '../common/clock.ts'
import { ServiceError } from '../common/errors.ts'
import {
  answered,
  changed,
  ended,
  newAppender,
  next,
  type Appender,
  type BatchSource,
  type HeadChanges,
} from './appender.ts'
import type { Appended, Batch, GroupRecord, StoredGroup, Storage, StorageHead } from './storage.ts'

/** Identifies a write: its batch, and its index in the batch. */
export interface Written {
  /** The head of the batch. */
  readonly head: StorageHead
  readonly index: number
  readonly isLast: boolean
}

interface Write extends StoredGroup {
  resolve(written: Written): void
  reject(error: Error): void
}

interface Check {
  resolve(): void
  reject(error: Error): void
}

/** The options of {@link Journal}. */
export interface JournalOptions {
  newId(): string
  /** Returns a group's record from memory. */
  recordNow(id: string): GroupRecord
  /** Called synchronously as soon as this process knows that another replica has appended. */
  readonly onFenced?: (() => void) | undefined
}

/**
 * The only component that appends to a {@link Storage}. It sends one batch at a time, and each batch contains
 * everything that arrived while the previous one was in flight. appender.ts decides which batches to send and how to
 * interpret the answers.
 */
export class Journal {
  readonly #storage: Storage
  readonly #options: JournalOptions
  readonly #source: BatchSource
  #state: Appender
  #queue: Write[] = []
  #checks: Check[] = []
  #draining: Promise<void> | undefined

  /** `head` is the head of the storage. */
  constructor(storage: Storage, head: StorageHead, options: JournalOptions) {
    this.#storage = storage
    this.#options = options
    this.#source = {
      newId: () => options.newId(),
      recordNow: (id) => options.recordNow(id),
      fitting: (kept) => this.#fitting(kept),
    }
    this.#state = newAppender(head)
  }

  /**
   * Appends a batch that only makes these changes to the head, and resolves with the new head. Call it before any
   * write. If it rejects without being fenced, call it again. The outcome of the first attempt is settled like that of
   * any other batch.
   */
  async swap(changes: HeadChanges): Promise<StorageHead> {
    this.change(changes)
    const failure = await this.#append([])
    if (failure) throw failure
    return this.#state.head
  }

  /** Applies these changes to the head of every batch from now on. */
  change(changes: HeadChanges): void {
    this.#state = changed(this.#state, changes)
  }

  /** Stops sending. All waiting writes fail with this reason. */
  end(reason: ServiceError): void {
    this.#state = ended(this.#state, reason)
  }

  /**
   * Resolves once the record is durable, in the order of the calls. Rejects if it was not written, or if the outcome is
   * unknown.
   */
  write(id: string, record: GroupRecord): Promise<Written> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ id, record, resolve, reject })
      this.#draining ??= this.#drain()
    })
  }

  /** Resolves if a write could be made durable now, after the batch with all earlier writes. */
  check(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#checks.push({ resolve, reject })
      this.#draining ??= this.#drain()
    })
  }

  /**
   * Why nothing is written anymore: another replica has appended, or may have. The state in memory may then be wrong.
   */
  get fenced(): ServiceError | undefined {
    return this.#state.endReason
  }

  /** Resolves once nothing is in flight. */
  async idle(): Promise<void> {
    await this.#draining
  }

  async #drain(): Promise<void> {
    await nextTurn()
    while (this.#queue.length > 0 || this.#checks.length > 0) {
      const checks = this.#checks.splice(0)
      const writes = this.#queue.splice(0, this.#fitting(this.#queue))
      if (writes.length > 0) this.#answer(writes, await this.#append(writes))
      if (checks.length > 0) {
        const failure = await failureOf(this.#check())
        for (const { resolve, reject } of checks)
          if (failure) reject(failure)
          else resolve()
      }
    }
    this.#draining = undefined
  }

  #answer(writes: readonly Write[], failure: ServiceError | undefined): void {
    const { head } = this.#state
    for (const [index, { resolve, reject }] of writes.entries()) {
      if (failure) reject(failure)
      else resolve({ head, index, isLast: index === writes.length - 1 })
    }
  }

  /** Returns how many of these fit into one batch. */
  #fitting(kept: readonly StoredGroup[]): number {
    const { groups, bytes } = this.#storage.maxBatch
    let count = 0
    let left = bytes
    for (const { id, record } of kept) {
      if (bytes !== Infinity) left -= id.length + Buffer.byteLength(JSON.stringify(record))
      if (count > 0 && (count === groups || left < 0)) break
      count += 1
    }
    return count
  }

  #append(writes: readonly StoredGroup[]): Promise<ServiceError | undefined> {
    return failureOf(this.#sendAll(writes.map(({ id, record }) => ({ id, record }))))
  }

  /** Settles the previous batch, then appends these groups. If they are undefined, only settles. */
  async #sendAll(groups: readonly StoredGroup[] | undefined): Promise<void> {
    for (;;) {
      const sending = next(this.#state, groups, this.#source)
      if (!sending) return
      this.#state = sending.state
      const appended = await this.#send(sending.batch)
      if (sending.isAsked && appended === 'done') return
    }
  }

  async #send(batch: Batch): Promise<Appended> {
    let answer: Appended | 'unknown' = 'unknown'
    try {
      answer = await this.#storage.append(this.#state.head, batch)
      return answer
    } finally {
      const { endReason } = this.#state
      this.#state = answered(this.#state, answer)
      if (this.#state.endReason !== endReason) this.#options.onFenced?.()
    }
  }

  /** A working storage is not enough, because the journal must also be able to send the next write. */
  async #check(): Promise<void> {
    await this.#sendAll(undefined)
    if (this.#state.endReason) throw this.#state.endReason
    await this.#storage.check()
  }
}

async function failureOf(work: Promise<void>): Promise<ServiceError | undefined> {
  try {
    await work
    return undefined
  } catch (cause) {
    if (cause instanceof ServiceError) return cause
    return new ServiceError('BACKEND_UNAVAILABLE', "This service's storage cannot be written to.", { cause })
  }
}
