import { absentRevision, afterKey, prefixEnd } from '@tenure/internal/etcd-keys'
import type { CallOptions } from 'tenure'
import type { EtcdKeys, KeyValue, Operation, Transaction, TransactionAnswer } from 'tenure/stores/etcd'
import type { FoundServer, GroupPage, GroupText, StorageServer, Swap, SwapAnswer } from './server-storage.ts'

/**
 * Storage in etcd: one key for each group, and one for the head. A batch is one transaction.
 *
 * The last part of each key contains a colon, which neither an election's name nor the last part of its keys can
 * contain. So elections, other services, and other prefixes, even nested ones, share no key with this service.
 */
export class EtcdServer implements StorageServer {
  readonly name: string
  /** A transaction may have 128 operations and 1.5 MiB. Keys and the head are not counted here. */
  readonly maxBatch = { groups: 120, bytes: 2 ** 20 }
  readonly #keys: EtcdKeys
  readonly #head: string
  readonly #check: string
  readonly #groups: string
  /** The end of the key range of all groups. */
  readonly #end: string
  #checks = 0

  constructor(keys: EtcdKeys) {
    const { prefix } = keys
    this.name = `The data below "${prefix}" in etcd`
    this.#keys = keys
    this.#head = `${prefix}/service:head`
    this.#check = `${prefix}/service:check`
    this.#groups = `${prefix}/group:`
    this.#end = prefixEnd(this.#groups)
  }

  async find(call: CallOptions): Promise<FoundServer> {
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }), call)
    const { clusterId = '', replacements } = this.#keys
    // A cluster with another id got this data from a backup. So did one whose revision is lower than before.
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

  async swap({ over, head, groups }: Swap, call: CallOptions): Promise<SwapAnswer> {
    const puts = groups.map(({ id, text }) => ({ put: this.#groups + encodeURIComponent(id), value: text }))
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

  /**
   * Returns one page. etcd walks all keys of a range, whatever its limit is, and blocks writes meanwhile: pages over a
   * million keys would take it minutes. So the range of the next page covers only keys that share a prefix with the last
   * key found. Once such a range is finished, the next one is wider again. The ranges are adjacent, without a gap. Their
   * width only affects speed.
   */
  async page(cursor: string | undefined, limit: number, call: CallOptions): Promise<GroupPage> {
    const [from, end] = cursor === undefined ? [this.#groups, this.#end] : (JSON.parse(cursor) as [string, string])
    const range = { get: from, rangeEnd: end, limit }
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }, range), call)
    const [head, groups] = ranges
    const found = groups?.found ?? []
    const next = this.#partAfter(groups?.more ? found : [], end)
    return {
      head: valueIn(head),
      groups: found.flatMap((one) => this.#groupIn(one)),
      next: next && JSON.stringify(next),
    }
  }

  /** `unfinished` is what was found of a range that has more. Returns undefined after the last range. */
  #partAfter(unfinished: readonly KeyValue[], end: string): readonly [from: string, end: string] | undefined {
    const [first, last] = [unfinished[0], unfinished.at(-1)]
    if (first && last) return [afterKey(last.key), narrowerEnd(first.key, last.key) ?? end]
    if (end === this.#end) return undefined
    const wider = end.slice(0, -1)
    return [end, wider.length > this.#groups.length ? prefixEnd(wider) : this.#end]
  }

  async check(call: CallOptions): Promise<void> {
    this.#checks += 1
    const put = { put: this.#check, value: String(this.#checks) }
    await this.#keys.transact({ compare: [], success: [put], failure: [] }, call)
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

/**
 * Returns the end of the keys that share a prefix with the last key: the prefix that the first key has too, plus one
 * character.
 */
function narrowerEnd(first: string, last: string): string | undefined {
  let shared = 0
  while (shared < last.length && first[shared] === last[shared]) shared += 1
  const prefix = last.slice(0, shared + 1)
  return /^[\x20-\x7e]+$/.test(prefix) ? prefixEnd(prefix) : undefined
}

/** A transaction without a comparison always succeeds. It is linearizable by default. */
function reading(...gets: readonly Operation[]): Transaction {
  return { compare: [], success: gets, failure: [] }
}

function valueIn(range: TransactionAnswer['ranges'][number] | undefined): string | undefined {
  return range?.found[0]?.value
}
