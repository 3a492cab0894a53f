import { ownCheckpointLimitBytes } from '../../engine/check-values.ts'
import { createHash } from 'node:crypto'
import { absentRevision, afterKey } from '@tenure/internal/etcd-keys'
import type { Clock } from '../../common/clock.ts'
import { isTenureError } from '../../common/errors.ts'
import { EtcdError } from '../../clients/etcd/etcd-error.ts'
import {
  type Comparison,
  type KeyValue,
  type Operation,
  type KeyRange,
  type TransactionAnswer,
} from '../../clients/etcd/messages.ts'
import type { EtcdKeys } from '../../clients/etcd/open.ts'
import type { CallOptions, LeaseRecord, ListPage } from '../../engine/lease-store.ts'
import { checkAddresses, diagnoseCluster } from './diagnostics.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { decodeTerm, encodeTerm, type TermRecord } from '../../store-kit/term-record.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { encodeRecord, readAt, recordOf } from '../../store-kit/record.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'
import { OpenWatches } from '../../store-kit/watches.ts'

/** A watch that lasted this long may be resumed immediately. If it ends sooner, the engine decides when to retry. */
const settledMs = 5_000
/** This many records fit into an answer, regardless of their size, and into a transaction (`--max-txn-ops`). */
const mostOnPage = 100

/**
 * A lease store on an already open etcd client, under another prefix.
 *
 * @example
 * const leases = leasesOn(keys, `${keys.prefix}/leases`, clock)
 */
export function leasesOn(
  { client, addresses, credentials }: Pick<EtcdKeys, 'client' | 'addresses' | 'credentials'>,
  prefix: string,
  clock: Clock,
): InspectableStore {
  return {
    ...swapStore(new EtcdServer(client, prefix, clock), clock),
    examine: (_election, call) => checkAddresses(addresses, credentials, clock, call),
    inspect: (call) => diagnoseCluster(addresses, credentials, clock, call),
  }
}

/** The decoded state of an election's two keys. */
interface FoundKeys extends Current {
  /** Content of the key with the highest term. */
  readonly kept: TermRecord | undefined
  /** The values that the next transaction compares. */
  readonly pair: Pair
}

interface Keys {
  readonly record: string
  readonly term: string
}

class EtcdServer implements SwapServer<FoundKeys> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly nothing: FoundKeys = {
    record: undefined,
    highestTerm: 0,
    remainingMs: undefined,
    kept: undefined,
    pair: { record: undefined, term: undefined },
  }
  readonly #client: EtcdKeys['client']
  readonly #prefix: string
  readonly #clock: Clock
  readonly #watches = new OpenWatches()

  constructor(client: EtcdKeys['client'], prefix: string, clock: Clock) {
    this.#client = client
    this.#prefix = prefix
    this.#clock = clock
  }

  async find(election: string, call: CallOptions): Promise<FoundKeys> {
    return (await this.#read(election, call)).found
  }

  async swap(
    election: string,
    over: FoundKeys,
    draft: RecordDraft,
    call: CallOptions,
  ): Promise<SwapOutcome<FoundKeys>> {
    const keys = this.#keysOf(election)
    const kept = { term: Math.max(over.highestTerm, draft.term), leaseDurationMs: draft.leaseDurationMs }
    // Most renewals leave the term key unchanged.
    const isKept = over.kept?.term === kept.term && over.kept.leaseDurationMs === kept.leaseDurationMs
    const text = encodeRecord(draft, () => this.#clock.randomId())
    const termText = isKept ? '' : encodeTerm(election, kept, this.#clock.randomId())
    const { succeeded, revision, ranges } = await this.#client.transact(
      {
        compare: samePair(keys, over.pair),
        success: [{ put: keys.record, value: text }, ...(isKept ? [] : [{ put: keys.term, value: termText }])],
        failure: getBoth(keys),
      },
      call,
    )
    if (!succeeded) return { ok: false, found: foundOf(election, keys, pairOf(ranges)) }
    const pair = {
      record: { key: keys.record, value: text, modRevision: revision },
      term: isKept ? over.pair.term : { key: keys.term, value: termText, modRevision: revision },
    }
    const record = { ...draft, version: versionOf(pair.record) }
    return { ok: true, found: { ...currentOf(record, kept), record, pair } }
  }

  async remove(election: string, over: FoundKeys, withTerm: boolean, call: CallOptions): Promise<boolean> {
    const keys = this.#keysOf(election)
    const { succeeded } = await this.#client.transact(
      {
        compare: samePair(keys, over.pair),
        success: [{ delete: keys.record }, ...(withTerm ? [{ delete: keys.term }] : [])],
        failure: [],
      },
      call,
    )
    return succeeded
  }

  watch(election: string, { signal }: CallOptions): AsyncGenerator<FoundKeys, void, undefined> {
    return this.#watches.run(signal, (ending) => this.#follow(election, ending))
  }

  async list({ after = '', limit }: Page, call: CallOptions): Promise<ListPage> {
    const folder = `${this.#prefix}/`
    const most = Math.min(limit, mostOnPage)
    // Read only the keys first, a record and a term per election, because values of other programs may have any size.
    const range = { get: folder + after, rangeEnd: `${folder}\x7f`, limit: 2 * most, keysOnly: true }
    const { ranges } = await this.#get([range], call)
    const { found = [], more = false } = ranges[0] ?? {}
    const own: { readonly election: string; readonly key: string }[] = []
    let shown = 0
    for (const { key } of found) {
      if (own.length === most) break
      shown++
      const election = electionIn(key.slice(folder.length))
      if (election !== undefined) own.push({ election, key })
    }
    const last = more || shown < found.length ? found[shown - 1] : undefined
    const next = last && afterKey(last.key.slice(folder.length))
    const gets = own.map(({ key }) => ({ get: key }))
    const values = gets.length > 0 ? (await this.#get(gets, call)).ranges : []
    return listPage(own, next, ({ election }, index) => {
      const keyValue = values[index]?.found[0]
      return keyValue && readRecord(election, keyValue)
    })
  }

  async close(): Promise<void> {
    this.#watches.close()
    this.#client.close()
  }

  async #read(election: string, call: CallOptions): Promise<SeenRevision> {
    const keys = this.#keysOf(election)
    const { revision, ranges } = await this.#get(getBoth(keys), call)
    const pair = pairOf(ranges)
    return { ...pair, revision, found: foundOf(election, keys, pair) }
  }

  /**
   * Without a comparison, the transaction always succeeds. It is linearizable because it does not request serializable
   * reads.
   */
  async #get(gets: readonly Operation[], call: CallOptions): Promise<TransactionAnswer> {
    return this.#client.transact({ compare: [], success: gets, failure: [] }, call)
  }

  /** Yields the current state, then each change. Resumes after an interruption, possibly on another member. */
  async *#follow(election: string, signal: AbortSignal): AsyncGenerator<FoundKeys, void, undefined> {
    const keys = this.#keysOf(election)
    let readMs = -Infinity
    for (let seen: SeenRevision | undefined; ;) {
      if (!seen) {
        readMs = this.#clock.monotonicMs()
        seen = await this.#read(election, { signal })
        yield seen.found
      }
      const openedMs = this.#clock.monotonicMs()
      try {
        for await (const next of this.#changes(election, keys, seen, signal)) yield (seen = next).found
        if (this.#clock.monotonicMs() - openedMs < settledMs) return
      } catch (error) {
        const nowMs = this.#clock.monotonicMs()
        // The history up to this revision was compacted, so read the current state instead. This is done only once.
        // After that, the engine decides when to retry.
        const gone = error instanceof EtcdError && error.reason === 'compacted' && nowMs - readMs >= settledMs
        const cut = isTenureError(error) && error.retryable && nowMs - openedMs >= settledMs
        if (!gone && !cut) throw error
        // Silence can mean that the revisions have restarted, for example after a restored backup.
        if (gone || error.code === 'TIMEOUT') seen = undefined
      }
    }
  }

  async *#changes(
    election: string,
    keys: Keys,
    from: SeenRevision,
    signal: AbortSignal,
  ): AsyncGenerator<SeenRevision, void, undefined> {
    let seen = from
    const answers = this.#client.watch({
      key: keys.record,
      rangeEnd: `${keys.term}\0`,
      fromRevision: String(BigInt(seen.revision) + 1n),
      signal,
      silenceMs: () => watchTimeoutMs(seen.found.record),
    })
    for await (const answer of answers) {
      // If another prefix begins with this election's keys, its keys may also be in the range.
      const events = answer.filter(({ keyValue: { key } }) => key === keys.record || key === keys.term)
      for (const [index, event] of events.entries()) {
        const { type, keyValue } = event
        const { key, modRevision: revision } = keyValue
        const value = type === 'put' ? keyValue : undefined
        const { record, term } = seen
        const pair = { record: key === keys.record ? value : record, term: key === keys.term ? value : term }
        // Changes of one transaction are yielded together.
        const isWhole = events[index + 1]?.keyValue.modRevision !== revision
        seen = { ...pair, revision, found: isWhole ? foundOf(election, keys, pair) : seen.found }
        if (isWhole) yield seen
      }
    }
  }

  /** Encoded names contain no slash, so no key of one election or prefix is a key of another. */
  #keysOf(election: string): Keys {
    const folder = `${this.#prefix}/${encodeURIComponent(election)}/`
    return { record: `${folder}record`, term: `${folder}term` }
  }
}

/** The two keys as etcd stores them. */
interface Pair {
  readonly record: KeyValue | undefined
  readonly term: KeyValue | undefined
}

/** The state that a watch has seen, and up to which revision. */
interface SeenRevision extends Pair {
  readonly revision: string
  readonly found: FoundKeys
}

function getBoth({ record, term }: Keys) {
  return [{ get: record }, { get: term }]
}

function pairOf([record, term]: readonly KeyRange[]): Pair {
  return { record: record?.found[0], term: term?.found[0] }
}

function samePair(keys: Keys, pair: Pair): Comparison[] {
  return [...sameRecord(keys, pair), sameTerm(keys, pair)]
}

/**
 * Compares by revision and by content. Revisions restart when a server's data is replaced, so a revision that was seen
 * before may belong to another value. The content is unique for every write.
 */
function sameRecord({ record: key }: Keys, { record }: Pair): Comparison[] {
  if (!record) return [isAbsent(key)]
  const { modRevision, value } = record
  return [
    { key, modRevision },
    { key, value },
  ]
}

/**
 * Compares by content alone. Its nonce belongs to one history, so if the same value exists again, it has the same
 * meaning.
 */
function sameTerm({ term: key }: Keys, { term }: Pair): Comparison {
  return term ? { key, value: term.value } : isAbsent(key)
}

function isAbsent(key: string): Comparison {
  return { key, modRevision: absentRevision }
}

/** Returns a version that differs after every write, even between two histories of one server. */
function versionOf({ modRevision, value }: KeyValue): string {
  return `${modRevision}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`
}

function foundOf(election: string, keys: Keys, pair: Pair): FoundKeys {
  const { record, term } = pair
  const kept = term && readKey(keys.term, () => decodeTerm(election, term.value, () => ({})))
  return { ...currentOf(record && readRecord(election, record), kept), pair }
}

function readRecord(election: string, keyValue: KeyValue): LeaseRecord {
  return readKey(keyValue.key, () => recordOf(election, keyValue.value, versionOf(keyValue)))
}

function currentOf(record: LeaseRecord | undefined, kept: TermRecord | undefined) {
  const highestTerm = Math.max(record?.term ?? 0, kept?.term ?? 0)
  return { record, highestTerm, remainingMs: undefined, lastDurationMs: kept?.leaseDurationMs, kept }
}

/** The election whose record has this key. Undefined for other keys, including those of other programs. */
function electionIn(key: string): string | undefined {
  const name = /^([^/]+)\/record$/.exec(key)?.[1]
  try {
    const election = name && decodeURIComponent(name)
    return election && encodeURIComponent(election) === name ? election : undefined
  } catch {
    return undefined
  }
}

function readKey<T>(key: string, read: () => T): T {
  return readAt(`the etcd key "${key}"`, 'prefix', read)
}
