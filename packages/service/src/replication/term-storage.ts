import type { Appended, Batch, Loaded, Storage, StorageHead } from '../storage/storage.ts'
import type { ConfirmedHead } from './data-loss.ts'

/**
 * The view of the storage that one active term uses. The storage itself stays open for the next term, which begins once
 * no call of this one is in flight.
 */
export class TermStorage implements Storage {
  readonly #storage: Storage
  readonly #confirmed: ConfirmedHead
  #inFlight: Promise<unknown> | undefined

  constructor(storage: Storage, confirmed: ConfirmedHead) {
    this.#storage = storage
    this.#confirmed = confirmed
  }

  get maxBatch(): Storage['maxBatch'] {
    return this.#storage.maxBatch
  }

  head(): Promise<StorageHead> {
    return this.#storage.head()
  }

  async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    const append = this.#storage.append(expected, batch)
    this.#inFlight = append
    const appended = await append
    if (appended === 'done') this.#confirmed.note(batch.head)
    return appended
  }

  load(): Promise<Loaded> {
    return this.#storage.load()
  }

  check(): Promise<void> {
    const check = this.#storage.check()
    this.#inFlight = check
    return check
  }

  /** Resolves once no append and no check is in flight. There is never more than one of them. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#inFlight])
  }
}
