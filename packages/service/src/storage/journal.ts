import { nextTurn } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type { Appended, Batch, GroupRecord, KeptGroup, Storage, StorageHead } from './storage.ts'

interface Write extends KeptGroup {
  resolve(): void
  reject(error: Error): void
}

/** What a batch may change of the head, beside its place. */
export type HeadChanges = Partial<Pick<StorageHead, 'term' | 'restores' | 'incarnation' | 'heldMs'>>

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
 * the commit and the answer. What that means for each kind of write is said at `LocalGroups`.
 */
export class Journal {
  readonly #storage: Storage
  readonly #newId: () => string
  #head: StorageHead
  #queue: Write[] = []
  #checks: Pick<Write, 'resolve' | 'reject'>[] = []
  #draining: Promise<void> | undefined
  #unsettled: Unsettled | undefined
  #changes: HeadChanges = {}
  #fenced: ServiceError | undefined
  readonly #onFenced: (() => void) | undefined

  /** `head` is that of the storage. `onFenced` is called in the step in which it is known that another has appended. */
  constructor(storage: Storage, head: StorageHead, newId: () => string, onFenced?: () => void) {
    this.#storage = storage
    this.#head = head
    this.#newId = newId
    this.#onFenced = onFenced
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

  /** Resolves once it is durable. Rejects where it was not done, or where nobody knows. */
  write(id: string, record: GroupRecord): Promise<void> {
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
      const writes = this.#take()
      if (writes.length > 0) settle(writes, await this.#append(writes))
      if (checks.length > 0) settle(checks, await failureOf(this.#check()))
    }
    this.#draining = undefined
  }

  /** As many as the storage takes at once. */
  #take(): Write[] {
    const { groups, bytes } = this.#storage.maxBatch
    let count = 0
    let left = bytes
    for (const { id, record } of this.#queue) {
      if (bytes !== Infinity) left -= id.length + Buffer.byteLength(JSON.stringify(record))
      if (count > 0 && (count === groups || left < 0)) break
      count += 1
    }
    return this.#queue.splice(0, count)
  }

  #append(writes: readonly Write[]): Promise<ServiceError | undefined> {
    const append = async () => {
      await this.#settle()
      const batch = this.#next(writes.map(({ id, record }) => ({ id, record })))
      this.#unsettled = { batch, instead: this.#next([]) }
      this.#follow(batch, await this.#storage.append(this.#head, batch))
    }
    return failureOf(append())
  }

  /** A storage that works is not enough: the next write must be possible too. */
  async #check(): Promise<void> {
    await this.#settle()
    await this.#storage.check()
  }

  async #settle(): Promise<void> {
    if (this.#fenced) throw this.#fenced
    if (!this.#unsettled) return
    const { batch, instead } = this.#unsettled
    const given = await this.#storage.append(this.#head, instead)
    if (given === 'done') return this.#follow(instead, given)
    this.#follow(batch, await this.#storage.append(this.#head, batch))
  }

  #follow({ head }: Batch, appended: Appended): void {
    if (appended === 'fenced') {
      this.#fenced = new ServiceError('BACKEND_UNAVAILABLE', 'Another replica writes to the storage of this service.')
      this.#onFenced?.()
      throw this.#fenced
    }
    this.#head = head
    this.#unsettled = undefined
  }

  #next(groups: readonly KeptGroup[]): Batch {
    const place = { seq: this.#head.seq + 1, batch: this.#newId() }
    return { head: { ...this.#head, ...this.#changes, ...place }, groups }
  }
}

function settle(
  waiting: readonly { resolve(): void; reject(error: Error): void }[],
  failure: ServiceError | undefined,
): void {
  for (const { resolve, reject } of waiting) {
    if (failure) reject(failure)
    else resolve()
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
