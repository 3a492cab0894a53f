import { absentRevision, afterKey, prefixEnd } from '@tenure/internal/etcd-keys'
import { messageOf } from '@tenure/internal/message'
import type { EtcdKeys, KeyValue, Operation, Transaction, TransactionAnswer } from 'tenure/stores/etcd'
import { ServiceError } from '../errors.ts'
import { decodeHead, encodeHead, firstHead, type KeptHead } from './head-text.ts'
import { decodeRecord, encodeRecord } from './record-text.ts'
import {
  isSameHead,
  type Appended,
  type Batch,
  type FoundGroup,
  type GroupRecord,
  type History,
  type Loaded,
  type Storage,
  type StorageHead,
} from './storage.ts'

/** Below the patience of those who wait for a write: they hear what went wrong. */
const callMs = 4_000
const pageMs = 10_000

/** So much of an answer is read in one go. It is known once it is there: the next page has as many groups as fit. */
const pageBytes = 256 * 1_024
const firstOnPage = 100
const mostOnPage = 1_000

/** What {@link EtcdStorage.open} takes. */
export interface EtcdStorageOptions {
  readonly keys: EtcdKeys
  newId(): string
}

/** The key of the head, and what it holds. */
interface FoundHead extends KeptHead {
  readonly text: string
}

interface Page {
  readonly found: FoundHead
  readonly keys: readonly KeyValue[]
  readonly more: boolean
}

/**
 * Groups in etcd: a key for each, and one for the head. A batch is one transaction that compares the head's value, which
 * no two heads share, and writes groups and head together. So one that is late, or that two members carry out, finds
 * another head and changes nothing.
 *
 * The last part of each key has a colon in it, which neither the name of an election nor the last part of its keys has:
 * elections, other services and other prefixes, also one below the other, share no key with this one.
 */
export class EtcdStorage implements Storage {
  /** A transaction may have 128 operations and 1.5 MiB. Keys and the head are not counted in these. */
  readonly maxBatch = { groups: 120, bytes: 2 ** 20 }
  readonly #options: EtcdStorageOptions
  readonly #headKey: string
  readonly #checkKey: string
  readonly #groups: string
  readonly #closing = new AbortController()
  readonly #underWay = new Set<Promise<unknown>>()

  private constructor(options: EtcdStorageOptions) {
    const { prefix } = options.keys
    this.#options = options
    this.#headKey = `${prefix}/service:head`
    this.#checkKey = `${prefix}/service:check`
    this.#groups = `${prefix}/group:`
  }

  /** Writes the first head where there is nothing yet. */
  static async open(options: EtcdStorageOptions): Promise<EtcdStorage> {
    const storage = new EtcdStorage(options)
    try {
      await storage.#begin()
      return storage
    } catch (error) {
      await storage.close()
      throw error
    }
  }

  async #begin(): Promise<void> {
    const { ranges } = await this.#transact(reading(this.#getHead, this.#getGroups(this.#groups, 1)))
    const [head, groups] = ranges
    if (head?.found[0]) return void this.#headIn(head.found)
    if (groups?.found.some((one) => this.#idOf(one) !== undefined))
      throw this.#unusable('there are groups without a head')
    const { keys, newId } = this.#options
    const value = encodeHead({ head: firstHead(newId(), keys.clusterId ?? '') })
    // Of several replicas that find nothing one writes it.
    const { succeeded, ranges: others } = await this.#transact({
      compare: [{ key: this.#headKey, modRevision: absentRevision }],
      success: [{ put: this.#headKey, value }],
      failure: [this.#getHead],
    })
    if (!succeeded) this.#headIn(others[0]?.found)
  }

  async head(): Promise<StorageHead> {
    return (await this.#readHead()).head
  }

  async history(): Promise<History> {
    const { head } = await this.#readHead()
    const incarnation = this.#options.keys.clusterId ?? ''
    // Another cluster has these data from a backup.
    return { incarnation, isComplete: incarnation === head.incarnation }
  }

  async append(expected: StorageHead, batch: Batch): Promise<Appended> {
    const found = await this.#swap(encodeHead({ head: expected }), batch)
    if (!found) return 'done'
    if (isSameHead(found.head, batch.head)) return this.#confirm(found)
    return 'fenced'
  }

  /** Gives what is there instead, if that is something else. */
  async #swap(over: string, { head, groups }: Batch): Promise<FoundHead | undefined> {
    const { seq } = head
    const puts = groups.map(({ id, record }) => ({
      put: this.#groups + encodeURIComponent(id),
      value: encodeRecord(id, record, { commit: 0, seq }),
    }))
    const { succeeded, ranges } = await this.#transact({
      compare: [{ key: this.#headKey, value: over }],
      success: [...puts, { put: this.#headKey, value: encodeHead({ head }) }],
      failure: [this.#getHead],
    })
    return succeeded ? undefined : this.#headIn(ranges[0]?.found)
  }

  /** Writes the head again that is there. */
  async #confirm({ head, text }: FoundHead): Promise<Appended> {
    return (await this.#swap(text, { head, groups: [] })) ? 'fenced' : 'done'
  }

  /**
   * Each page comes with the head. While that stays the same no group has changed, because every append changes it: so
   * all pages show one moment, whatever etcd has compacted meanwhile. If it changes, another replica is active.
   */
  async load(): Promise<Loaded> {
    const first = await this.#page(this.#groups, firstOnPage)
    const { head } = first.found
    return { head, pages: this.#pages(head, first) }
  }

  async *#pages(head: StorageHead, first: Page): AsyncGenerator<readonly FoundGroup[]> {
    let page = first
    for (;;) {
      const { found, keys, more } = page
      if (!isSameHead(found.head, head)) throw overtaken()
      const last = more ? keys.at(-1) : undefined
      // While one is read, the next is under way.
      const next = last && this.#page(afterKey(last.key), fitting(keys))
      next?.catch(() => {})
      yield keys.flatMap((one) => this.#groupIn(one) ?? [])
      if (!next) return
      page = await next
    }
  }

  async #page(from: string, limit: number): Promise<Page> {
    const { ranges } = await this.#transact(reading(this.#getHead, this.#getGroups(from, limit)), pageMs)
    const [head, groups] = ranges
    return { found: this.#headIn(head?.found), keys: groups?.found ?? [], more: groups?.more ?? false }
  }

  /** Nothing of a key that is not ours. Throws where ours is damaged: its terms would be granted again. */
  #groupIn(keyValue: KeyValue): FoundGroup | undefined {
    const id = this.#idOf(keyValue)
    if (id === undefined) return undefined
    const decoded = decodeRecord(id, keyValue.value)
    if (!decoded) throw this.#unusable(`the record of group ${JSON.stringify(id)} is damaged`)
    return { id, record: decoded.value as GroupRecord, seq: decoded.seq }
  }

  #idOf({ key }: KeyValue): string | undefined {
    const name = key.slice(this.#groups.length)
    try {
      const id = decodeURIComponent(name)
      return encodeURIComponent(id) === name ? id : undefined
    } catch {
      return undefined
    }
  }

  async check(): Promise<void> {
    const value = this.#options.newId()
    await this.#transact({ compare: [], success: [{ put: this.#checkKey, value }], failure: [] })
  }

  async close(): Promise<void> {
    this.#closing.abort(new ServiceError('BACKEND_UNAVAILABLE', 'The storage of this service is closed.'))
    await Promise.allSettled(this.#underWay)
    this.#options.keys.close()
  }

  async #readHead(): Promise<FoundHead> {
    const { ranges } = await this.#transact(reading(this.#getHead))
    return this.#headIn(ranges[0]?.found)
  }

  #headIn(found: readonly KeyValue[] | undefined): FoundHead {
    const [keyValue] = found ?? []
    if (!keyValue) throw this.#unusable('its head is missing')
    try {
      return { ...decodeHead(keyValue.value), text: keyValue.value }
    } catch (error) {
      throw this.#unusable(messageOf(error), error)
    }
  }

  get #getHead(): Operation {
    return { get: this.#headKey }
  }

  #getGroups(from: string, limit: number): Operation {
    return { get: from, rangeEnd: prefixEnd(this.#groups), limit }
  }

  async #transact(transaction: Transaction, timeoutMs = callMs): Promise<TransactionAnswer> {
    const { signal } = this.#closing
    signal.throwIfAborted()
    const answer = this.#options.keys.transact(transaction, { signal, timeoutMs })
    this.#underWay.add(answer)
    try {
      return await answer
    } finally {
      this.#underWay.delete(answer)
    }
  }

  #unusable(reason: string, cause?: unknown): Error {
    const text = `The data below "${this.#options.keys.prefix}" in etcd cannot be used: ${reason.replace(/\.?$/, '.')}`
    return new Error(text, { cause })
  }
}

/** Without a comparison it always succeeds. It is linearizable, because it does not ask for less. */
function reading(...gets: readonly Operation[]): Transaction {
  return { compare: [], success: gets, failure: [] }
}

/** How many groups the next page may have, if they are as large as these. */
function fitting(keys: readonly KeyValue[]): number {
  const bytes = keys.reduce((sum, { key, value }) => sum + key.length + value.length, 0)
  return Math.max(1, Math.min(mostOnPage, Math.floor((pageBytes * keys.length) / Math.max(1, bytes))))
}

function overtaken(): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', 'Another replica has written while the groups were read.')
}
