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
  #checks = 0

  constructor(keys: EtcdKeys) {
    const { prefix } = keys
    this.name = `What is below "${prefix}" in etcd`
    this.#keys = keys
    this.#head = `${prefix}/service:head`
    this.#check = `${prefix}/service:check`
    this.#groups = `${prefix}/group:`
  }

  async find(call: CallOptions): Promise<FoundServer> {
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }), call)
    // A cluster with another id has these data from a backup.
    return { head: valueIn(ranges[0]), incarnation: this.#keys.clusterId ?? '', isSynced: false }
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

  async page(from: string | undefined, limit: number, call: CallOptions): Promise<GroupPage> {
    const range = { get: from ?? this.#groups, rangeEnd: prefixEnd(this.#groups), limit }
    const { ranges } = await this.#keys.transact(reading({ get: this.#head }, range), call)
    const [head, groups] = ranges
    const last = groups?.more ? groups.found.at(-1) : undefined
    return {
      head: valueIn(head),
      groups: groups?.found.flatMap((one) => this.#groupIn(one)) ?? [],
      next: last && afterKey(last.key),
    }
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

/** Without a comparison it always succeeds. It is linearizable, because it does not ask for less. */
function reading(...gets: readonly Operation[]): Transaction {
  return { compare: [], success: gets, failure: [] }
}

function valueIn(range: TransactionAnswer['ranges'][number] | undefined): string | undefined {
  return range?.found[0]?.value
}
