import { absentRevision, afterKey, prefixEnd } from '@tenure/internal/etcd-keys'
import type { CallOptions } from 'tenure'
import type { EtcdKeys, KeyValue, Operation, Transaction, TransactionAnswer } from 'tenure/stores/etcd'
import type { FoundServer, GroupPage, GroupText, StorageServer, Swap, SwapAnswer } from './server-storage.ts'

/**
 * etcd: a key for each group, and one for the head. A batch is one transaction.
 *
 * The last part of each key has a colon in it, which neither the name of an election nor the last part of its keys has:
 * elections, other services and other prefixes, even one below the other, share no key with this one.
 */
export class EtcdServer implements StorageServer {
  readonly name: string
  /** A transaction may have 128 operations and 1.5 MiB. Keys and the head are not counted in these. */
  readonly maxBatch = { groups: 120, bytes: 2 ** 20 }
  readonly #keys: EtcdKeys
  readonly #head: string
  readonly #check: string
  readonly #groups: string
  /** Of all groups. */
  readonly #end: string
  #checks = 0

  constructor(keys: EtcdKeys) {
    const { prefix } = keys
    this.name = `What is below "${prefix}" in etcd`
    this.#keys = keys
    this.#head = `${prefix}/service:head`
    this.#check = `${prefix}/service:check`
    this.#groups = `${prefix}/group:`
    this.#end = prefixEnd(this.#groups)
  }

  async find(call: CallOptions): Promise<FoundServer> {
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }), call)
    const { clusterId = '', replacements } = this.#keys
    // A cluster with another id has these data from a backup. So has one whose revision is lower than it was.
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
   * etcd walks through all keys of a range, whatever its limit is, and no key is written meanwhile: pages of a million
   * would take it minutes. So each one ends where the keys begin otherwise than the last one found, and the next part is
   * wider again. The parts lie one behind the other, without a gap; how wide they are is a matter of speed alone.
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

  /** `unfinished` is what was found of a part that has more. Undefined behind the last one. */
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

  /** Nothing of a key that is not ours. */
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

/** Of the keys that begin like the last one, as far as the first one does, and with one character more. */
function narrowerEnd(first: string, last: string): string | undefined {
  let shared = 0
  while (shared < last.length && first[shared] === last[shared]) shared += 1
  const prefix = last.slice(0, shared + 1)
  return /^[\x20-\x7e]+$/.test(prefix) ? prefixEnd(prefix) : undefined
}

/** Without a comparison it always succeeds. It is linearizable, because it does not ask for less. */
function reading(...gets: readonly Operation[]): Transaction {
  return { compare: [], success: gets, failure: [] }
}

function valueIn(range: TransactionAnswer['ranges'][number] | undefined): string | undefined {
  return range?.found[0]?.value
}
