import type { Appended, Batch, Loaded, Storage, StorageHead } from '../storage/storage.ts'
import type { ConfirmedHead } from './lost-tail.ts'

/** A storage as one reign uses it: it stays open for the next one, which begins once nothing of this one is under way. */
export class LentStorage implements Storage {
  readonly #storage: Storage
  readonly #confirmed: ConfirmedHead
  #underWay: Promise<unknown> | undefined

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
    this.#underWay = append
    const appended = await append
    if (appended === 'done') this.#confirmed.note(batch.head)
    return appended
  }

  load(): Promise<Loaded> {
    return this.#storage.load()
  }

  check(): Promise<void> {
    const check = this.#storage.check()
    this.#underWay = check
    return check
  }

  /** Resolves when no append is under way any more, and no check: there is never more than one of them. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#underWay])
  }
}
