import { nextTurn } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type { Appended, Batch, GroupRecord, KeptGroup, Storage, StorageHead } from './storage.ts'

/** Which write of which batch it was. */
export interface Written {
  /** Of the batch. */
  readonly head: StorageHead
  readonly index: number
  readonly isLast: boolean
}

interface Write extends KeptGroup {
  resolve(written: Written): void
  reject(error: Error): void
}

interface Check {
  resolve(): void
  reject(error: Error): void
}

/** What a batch may change of the head, beside its place. */
export type HeadChanges = Partial<Pick<StorageHead, 'term' | 'restores' | 'incarnation' | 'heldMs'>>

/** What {@link Journal} takes. */
export interface JournalOptions {
  newId(): string
  /** What memory has of a group. */
  recordNow(id: string): GroupRecord
  /** Called in the step in which it is known that another replica has appended. */
  readonly onFenced?: (() => void) | undefined
}

/** A batch of which nobody knows whether it is there. */
interface Unsettled {
  readonly batch: Batch
  /** On the same head, without groups: where it is taken, the batch never will be. */
  readonly instead: Batch
}

/**
 * The one who appends to a {@link Storage}: one batch at a time, each with all that came while the one before was under
 * way.
 *
 * Where an append rejects, its writers fail at once, and the batch is *unsettled*: it may still be applied, even much
 * later. Nothing else is appended on top of that. First an empty batch is appended to the same head. Where it is `done`,
 * the unsettled one can never be. Where it is `fenced`, the same batch is sent again: `done` means that it was applied
 * after all, and that this is durable now. If that is fenced too, another replica has appended, and this one never does
 * again. Reading the head would not settle anything: see {@link Storage.append}.
 *
 * Writers that failed although their batch was applied are no different from those of a process that crashed between
 * the commit and the answer. What that means for each kind of write is said at `LocalGroups`. Such records are *unheard*:
 * they are replaced by what memory says before anything else is written. Otherwise a reader of changes could have
 * seen a later batch when the process crashes: by its cursor it would know of a record that it was never told of.
 */
export class Journal {
  readonly #storage: Storage
  readonly #options: JournalOptions
  #head: StorageHead
  #queue: Write[] = []
  #checks: Check[] = []
  #draining: Promise<void> | undefined
  #unsettled: Unsettled | undefined
  #changes: HeadChanges = {}
  /** Groups whose record is in the storage although its writer failed. */
  readonly #unheard = new Set<string>()
  #fenced: ServiceError | undefined

  /** `head` is that of the storage. */
  constructor(storage: Storage, head: StorageHead, options: JournalOptions) {
    this.#storage = storage
    this.#head = head
    this.#options = options
  }

  /**
   * Appends nothing but a head with these changes, and resolves with it. Before any write. Where it rejects, and it is
   * not fenced, ask again: what became of the first try is settled like any batch.
   */
  async swap(changes: HeadChanges): Promise<StorageHead> {
    this.change(changes)
    const failure = await this.#append([])
    if (failure) throw failure
    return this.#head
  }

  /** Every batch from now on has these in its head. */
  change(changes: HeadChanges): void {
    this.#changes = { ...this.#changes, ...changes }
  }

  /** Nothing more is sent, and all that waits to be fails with this. */
  end(reason: ServiceError): void {
    this.#fenced ??= reason
  }

  /** Resolves once it is durable, in the order of the calls. Rejects where it was not done, or where nobody knows. */
  write(id: string, record: GroupRecord): Promise<Written> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ id, record, resolve, reject })
      this.#draining ??= this.#drain()
    })
  }

  /** Resolves if a write could be made durable, after the batch that takes what was asked for before. */
  check(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#checks.push({ resolve, reject })
      this.#draining ??= this.#drain()
    })
  }

  /** Why nothing is written any more: another replica has appended, or may have. What is in memory need not be true. */
  get fenced(): ServiceError | undefined {
    return this.#fenced
  }

  /** Resolves when nothing is under way any more. */
  async idle(): Promise<void> {
    await this.#draining
  }

  async #drain(): Promise<void> {
    // Those that come in the same turn go together.
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
    const head = this.#head
    for (const [index, { resolve, reject }] of writes.entries()) {
      if (failure) reject(failure)
      else resolve({ head, index, isLast: index === writes.length - 1 })
    }
  }

  /** How many of these the storage takes at once. */
  #fitting(kept: readonly KeptGroup[]): number {
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

  #append(writes: readonly Write[]): Promise<ServiceError | undefined> {
    const append = async () => {
      await this.#settle()
      await this.#appendNext(writes.map(({ id, record }) => ({ id, record })))
    }
    return failureOf(append())
  }

  async #appendNext(groups: readonly KeptGroup[]): Promise<void> {
    const batch = this.#next(groups)
    this.#unsettled = { batch, instead: this.#next([]) }
    this.#follow(batch, await this.#send(batch))
  }

  /** Asked before each: it may have ended while the one before was under way. */
  async #send(batch: Batch): Promise<Appended> {
    this.#assertGoesOn()
    return this.#storage.append(this.#head, batch)
  }

  #assertGoesOn(): void {
    if (this.#fenced) throw this.#fenced
  }

  /** A storage that works is not enough: the next write must be possible too. */
  async #check(): Promise<void> {
    await this.#settle()
    this.#assertGoesOn()
    await this.#storage.check()
  }

  async #settle(): Promise<void> {
    this.#assertGoesOn()
    if (this.#unsettled) await this.#settleBatch(this.#unsettled)
    while (this.#unheard.size > 0) {
      const kept = [...this.#unheard].map((id) => ({ id, record: this.#options.recordNow(id) }))
      const groups = kept.slice(0, this.#fitting(kept))
      await this.#appendNext(groups)
      for (const { id } of groups) this.#unheard.delete(id)
    }
  }

  async #settleBatch({ batch, instead }: Unsettled): Promise<void> {
    const given = await this.#send(instead)
    if (given === 'done') return this.#follow(instead, given)
    this.#follow(batch, await this.#send(batch))
    for (const { id } of batch.groups) this.#unheard.add(id)
  }

  #follow({ head }: Batch, appended: Appended): void {
    if (appended === 'fenced') {
      this.#fenced = new ServiceError('BACKEND_UNAVAILABLE', 'Another replica writes to the storage of this service.')
      this.#options.onFenced?.()
      throw this.#fenced
    }
    this.#head = head
    this.#unsettled = undefined
  }

  #next(groups: readonly KeptGroup[]): Batch {
    const place = { seq: this.#head.seq + 1, batch: this.#options.newId() }
    return { head: { ...this.#head, ...this.#changes, ...place }, groups }
  }
}

async function failureOf(work: Promise<void>): Promise<ServiceError | undefined> {
  try {
    await work
    return undefined
  } catch (cause) {
    if (cause instanceof ServiceError) return cause
    return new ServiceError('BACKEND_UNAVAILABLE', 'The storage of this service cannot be written.', { cause })
  }
}
