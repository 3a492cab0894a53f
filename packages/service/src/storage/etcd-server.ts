import { absentRevision, prefixEnd } from '@tenure/internal/etcd-keys'
import type { CallOptions } from 'tenure'
import {
  isAnswerTooLong,
  type EtcdKeys,
  type KeyValue,
  type Operation,
  type Transaction,
  type TransactionAnswer,
} from 'tenure/internal/etcd'
import { ServiceError } from '../common/errors.ts'
import { KeyRanges, type ReadRange } from './key-ranges.ts'
import type { BatchText, FoundServer, GroupPage, GroupText, StorageServer, Swap, SwapAnswer } from './server-storage.ts'

/**
 * Storage in etcd: one key for each group, and one for the head. A batch is one transaction.
 *
 * The last part of each key contains a colon, which neither an election's name nor the last part of its keys can
 * contain. So elections, other services, and other prefixes, even nested ones, share no key with this service.
 */
export class EtcdStorageServer implements StorageServer {
  readonly name: string
  /** A transaction may contain 128 operations and 1.5 MiB. Keys, the head, and the list are not counted here. */
  readonly maxBatch = { groups: 120, bytes: 2 ** 20 }
  readonly #keys: EtcdKeys
  readonly #head: string
  readonly #check: string
  readonly #groups: string
  readonly #batches: string
  readonly #savedRanges: string
  readonly #ranges: KeyRanges
  #checks = 0

  constructor(keys: EtcdKeys) {
    const { prefix } = keys
    this.name = `The data under "${prefix}" in etcd`
    this.#keys = keys
    this.#head = `${prefix}/service:head`
    this.#check = `${prefix}/service:check`
    this.#groups = `${prefix}/group:`
    this.#batches = `${prefix}/service:batch-`
    this.#savedRanges = `${prefix}/service:ranges`
    this.#ranges = new KeyRanges(this.#groups, prefixEnd(this.#groups))
  }

  async find(call: CallOptions): Promise<FoundServer> {
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }), call)
    const { clusterId = '', replacements } = this.#keys
    // A cluster with another id, or with a lower revision than before, was restored from a backup.
    return { head: valueIn(ranges[0]), incarnation: clusterId, isSynced: false, replacements }
  }

  async begin(head: string, call: CallOptions): Promise<void> {
    for (let from: string | undefined; ;) {
      const { groups, next }: GroupPage = await this.page(from, 100, call)
      if (groups.length > 0) return
      if (next === undefined) break
      from = next
    }
    await this.#keys.transact(
      {
        compare: [{ key: this.#head, modRevision: absentRevision }],
        success: [{ put: this.#head, value: head }],
        failure: [],
      },
      call,
    )
  }

  async swap({ over, head, groups, batch }: Swap, call: CallOptions): Promise<SwapAnswer> {
    const puts = groups.map(({ id, text }) => ({ put: this.#keyOf(id), value: text }))
    if (batch) puts.push({ put: this.#batches + batch.slot, value: batch.text })
    const { succeeded, ranges } = await this.#keys.transact(
      {
        compare: [{ key: this.#head, value: over }],
        success: [...puts, { put: this.#head, value: head }],
        failure: [{ get: this.#head }],
      },
      call,
    )
    return succeeded ? { swapped: true } : { swapped: false, head: valueIn(ranges[0]) }
  }

  async page(cursor: string | undefined, limit: number, call: CallOptions): Promise<GroupPage> {
    const [from, end] = cursor === undefined ? await this.#firstRange(call) : (JSON.parse(cursor) as ReadRange)
    const [head, groups] = await this.#readPage([from, end], limit, call)
    const found = groups?.found ?? []
    const keys = found.map(({ key }) => key)
    const next = this.#ranges.after(keys, groups?.more ?? false, end)
    return {
      head: valueIn(head),
      groups: found.flatMap((one) => this.#groupIn(one)),
      next: next && JSON.stringify(next),
    }
  }

  /** Reads the head and at most `limit` groups, or fewer if these do not fit into one answer. */
  async #readPage([from, end]: ReadRange, limit: number, call: CallOptions): Promise<TransactionAnswer['ranges']> {
    try {
      const range = { get: from, rangeEnd: end, limit }
      return (await this.#keys.transact(reading({ get: this.#head }, range), call)).ranges
    } catch (error) {
      if (limit < 2 || !isAnswerTooLong(error)) throw error
      return this.#readPage([from, end], Math.ceil(limit / 10), call)
    }
  }

  async #firstRange(call: CallOptions): Promise<ReadRange> {
    const { ranges } = await this.#keys.transact(reading({ get: this.#savedRanges }), call)
    return this.#ranges.begin(valueIn(ranges[0]))
  }

  async loaded(call: CallOptions): Promise<void> {
    const { text } = this.#ranges
    if (text !== undefined) await this.#put(this.#savedRanges, text, call)
  }

  async groups(ids: readonly string[], call: CallOptions): Promise<GroupPage> {
    const pages = await inParts(ids, async (some) => {
      const gets = some.map((id) => ({ get: this.#keyOf(id) }))
      const { ranges } = await this.#keys.transact(reading({ get: this.#head }, ...gets), call)
      const [head, ...groups] = ranges
      return { head: valueIn(head), groups: groups.flatMap(({ found }) => found.flatMap((one) => this.#groupIn(one))) }
    })
    const head = pages[0]?.head
    // Every append changes the head, so parts with the same head show the same moment.
    if (pages.some((page) => page.head !== head)) throw changedMeanwhile()
    return { head, groups: pages.flatMap(({ groups }) => groups) }
  }

  async batches(slots: readonly number[], call: CallOptions): Promise<readonly BatchText[]> {
    const texts = await inParts(slots, async (some) => {
      const gets = some.map((slot) => ({ get: this.#batches + slot }))
      const { ranges } = await this.#keys.transact(reading(...gets), call)
      return some.flatMap((slot, index) => {
        const text = valueIn(ranges[index])
        return text === undefined ? [] : [{ slot, text }]
      })
    })
    return texts.flat()
  }

  #keyOf(id: string): string {
    return this.#groups + encodeURIComponent(id)
  }

  async check(call: CallOptions): Promise<void> {
    this.#checks += 1
    await this.#put(this.#check, String(this.#checks), call)
  }

  async #put(key: string, value: string, call: CallOptions): Promise<void> {
    await this.#keys.transact({ compare: [], success: [{ put: key, value }], failure: [] }, call)
  }

  close(): void {
    this.#keys.close()
  }

  /** Returns nothing for a key that does not belong to this storage. */
  #groupIn({ key, value: text }: KeyValue): GroupText[] {
    const name = key.slice(this.#groups.length)
    try {
      const id = decodeURIComponent(name)
      return encodeURIComponent(id) === name ? [{ id, text }] : []
    } catch {
      return []
    }
  }
}

/** Returns a transaction that only reads. Without a comparison it always succeeds. It is linearizable by default. */
function reading(...gets: readonly Operation[]): Transaction {
  return { compare: [], success: gets, failure: [] }
}

/** Asks for all items at once, or for half of them at a time if the answer is too long. */
async function inParts<Item, Answer>(
  items: readonly Item[],
  ask: (some: readonly Item[]) => Promise<Answer>,
): Promise<Answer[]> {
  try {
    return [await ask(items)]
  } catch (error) {
    if (items.length < 2 || !isAnswerTooLong(error)) throw error
    const middle = Math.ceil(items.length / 2)
    return [...(await inParts(items.slice(0, middle), ask)), ...(await inParts(items.slice(middle), ask))]
  }
}

function changedMeanwhile(): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', 'The storage changed while large groups were being read in parts.')
}

function valueIn(range: TransactionAnswer['ranges'][number] | undefined): string | undefined {
  return range?.found[0]?.value
}
