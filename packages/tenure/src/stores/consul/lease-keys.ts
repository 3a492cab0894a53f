import { createHash } from 'node:crypto'
import { pause } from '@tenure/internal/pause'
import type { Clock } from '../../common/clock.ts'
import { ownCheckpointLimitBytes } from '../../engine/check-values.ts'
import type { CallOptions, LeaseRecord, ListPage } from '../../engine/lease-store.ts'
import type { SwapOutcome, SwapServer } from '../../store-kit/compare-and-swap-store.ts'
import { keysOn, listPage, type Page } from '../../store-kit/list.ts'
import { encodeRecord, readAt, recordOf } from '../../store-kit/record.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { decodeTerm, encodeTerm, type TermRecord } from '../../store-kit/term-record.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { OpenWatches } from '../../store-kit/watches.ts'
import { malformedResponse } from './failures.ts'
import type { ConsulClient, ConsulFolder, ConsulKey, ConsulOperation, ConsulWait } from './client.ts'

/** This many of the largest records fit into an answer of 4 MiB, in base64. */
const mostOnPage = 14
/** Consul limits a blocking read to 10 minutes. */
const longestWaitMs = 300_000
/** The time between two reads of a watch that have shown no change. A read of a missing key ends for any other key. */
const idlePauseMs = 100

/** The decoded state of an election's keys. */
interface ConsulState extends Current {
  /** Content of the key with the highest term. */
  readonly kept: TermRecord | undefined
  /** The keys that the next transaction compares. */
  readonly keys: ConsulKeySet
}

/** The keys of one election as Consul stores them. */
interface ConsulKeySet {
  readonly record: ConsulKey | undefined
  readonly term: ConsulKey | undefined
  /** Path of the key that marks this history of the election. Undefined if there is none. */
  readonly history: string | undefined
}

/**
 * The keys of each election: the record, the highest term, and a mark with a random name.
 *
 * Consul compares keys only by their index. Indexes start again when the data of a cluster is replaced, so a key may
 * have the index that a process remembers from other data. The mark is created with the first grant and keeps its name.
 * Every transaction requires the mark that was seen, so it is refused where the history is a different one.
 */
export class ConsulServer implements SwapServer<ConsulState> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly #client: ConsulClient
  readonly #prefix: string
  readonly #clock: Clock
  readonly #watches = new OpenWatches()

  constructor(client: ConsulClient, prefix: string, clock: Clock) {
    this.#client = client
    this.#prefix = prefix
    this.#clock = clock
  }

  async find(election: string, call: CallOptions): Promise<ConsulState> {
    const path = this.#folderOf(election)
    const folder = await this.#client.folder(path, call)
    // A folder that the token may not read looks empty, and Consul does not always say so. A single key is refused.
    if (folder.keys.length === 0) await this.#client.checkRight(recordIn(path), call)
    return foundOf(election, path, folder)
  }

  async swap(
    election: string,
    over: ConsulState,
    draft: RecordDraft,
    call: CallOptions,
  ): Promise<SwapOutcome<ConsulState>> {
    const path = this.#folderOf(election)
    const { record: oldRecord, term: oldTerm, history = `${path}history-${this.#clock.randomId()}` } = over.keys
    const kept = { term: Math.max(over.highestTerm, draft.term), leaseDurationMs: draft.leaseDurationMs }
    // Most renewals leave the term key unchanged.
    const isKept = over.kept?.term === kept.term && over.kept.leaseDurationMs === kept.leaseDurationMs
    const text = encodeRecord(draft, () => this.#clock.randomId())
    const termText = isKept ? '' : encodeTerm(election, kept, this.#clock.randomId())
    const results = await this.#client.transact(
      [
        over.keys.history === undefined ? { verb: 'set', key: history, value: '' } : { verb: 'get', key: history },
        isKept
          ? { verb: 'check-index', key: termIn(path), index: oldTerm?.modifyIndex ?? 0 }
          : { verb: 'cas', key: termIn(path), index: oldTerm?.modifyIndex ?? 0, value: termText },
        { verb: 'cas', key: recordIn(path), index: oldRecord?.modifyIndex ?? 0, value: text },
      ],
      call,
    )
    if (!results) return { ok: false }
    // The results repeat the keys without their values.
    const written = (key: string, value: string | undefined): ConsulKey | undefined => {
      const result = results.find((one) => one.key === key)
      return result && value !== undefined ? { ...result, value } : undefined
    }
    const newRecord = written(recordIn(path), text)
    if (!newRecord) throw malformedResponse('Consul', `it lacks the key "${recordIn(path)}"`)
    const keys = {
      record: newRecord,
      term: written(termIn(path), isKept ? oldTerm?.value : termText),
      history,
    }
    const record = { ...draft, version: versionOf(newRecord) }
    return { ok: true, found: { ...currentOf(record, kept), record, keys } }
  }

  async remove(election: string, { keys }: ConsulState, withTerm: boolean, call: CallOptions): Promise<boolean> {
    const path = this.#folderOf(election)
    const same = Object.values(keys).flatMap((one): ConsulOperation[] => {
      if (one === undefined) return []
      if (typeof one === 'string') return [{ verb: 'get', key: one }]
      return [{ verb: 'check-index', key: one.key, index: one.modifyIndex }]
    })
    const others = withTerm ? [termIn(path), ...(keys.history === undefined ? [] : [keys.history])] : []
    const removals = [recordIn(path), ...others].map((key): ConsulOperation => ({ verb: 'delete', key }))
    return (await this.#client.transact([...same, ...removals], call)) !== undefined
  }

  watch(election: string, { signal }: CallOptions): AsyncGenerator<ConsulState, void, undefined> {
    return this.#watches.run(signal, (ending) => this.#follow(election, ending))
  }

  async list(page: Page, call: CallOptions): Promise<ListPage> {
    const folder = `${this.#prefix}/`
    const names = (await this.#client.folders(folder, call)).filter((name) => electionIn(name) !== undefined)
    const limit = Math.min(page.limit, mostOnPage)
    const { keys: shown, next } = keysOn({ ...page, limit }, names.toSorted())
    const gets = shown.map((name): ConsulOperation => ({ verb: 'get-tree', key: recordIn(`${folder}${name}/`) }))
    const values = gets.length > 0 ? ((await this.#client.transact(gets, call)) ?? []) : []
    return listPage(shown, next, (name) => {
      const found = values.find(({ key }) => key === recordIn(`${folder}${name}/`))
      return found && readRecord(electionIn(name) ?? '', found)
    })
  }

  async close(): Promise<void> {
    this.#watches.close()
    this.#client.close()
  }

  async *#follow(election: string, signal: AbortSignal): AsyncGenerator<ConsulState, void, undefined> {
    const path = this.#folderOf(election)
    let last: ConsulState | undefined
    let index = 0
    const next = async (seen: ConsulFolder): Promise<ConsulWait> => {
      const wait = { waitMs: Math.min(watchTimeoutMs(last?.record), longestWaitMs), index: seen.index }
      // After a restored snapshot or a wiped cluster, the index starts again. Read at once then, as Consul requires.
      return seen.index < index ? { ...wait, index: 0 } : wait
    }
    for await (const folder of this.#client.watch(path, signal, next)) {
      const found = foundOf(election, path, folder)
      const isNew = !last || versionsIn(last) !== versionsIn(found)
      last = found
      if (isNew) yield found
      else await pause(this.#clock, idlePauseMs, signal)
      index = folder.index
    }
  }

  /** Encoded names contain no slash, so no key of one election or prefix is a key of another. */
  #folderOf(election: string): string {
    return `${this.#prefix}/${nameOf(election)}/`
  }
}

/** Consul redirects paths with "." and "..", so these names are encoded as well. */
function nameOf(election: string): string {
  return /^\.{1,2}$/.test(election) ? election.replaceAll('.', '%2E') : encodeURIComponent(election)
}

/** The election with this folder. Undefined for folders of other programs. */
function electionIn(name: string): string | undefined {
  try {
    const election = decodeURIComponent(name)
    return election && nameOf(election) === name ? election : undefined
  } catch {
    return undefined
  }
}

const recordIn = (path: string) => `${path}record`
const termIn = (path: string) => `${path}term`

/** Returns a version that differs after every write, even between two histories of one cluster. */
function versionOf({ modifyIndex, value }: ConsulKey): string {
  return `${modifyIndex}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`
}

const versionsIn = ({ record, keys: { term } }: ConsulState) => `${record?.version} ${term && versionOf(term)}`

function foundOf(election: string, path: string, folder: ConsulFolder): ConsulState {
  const keyed = new Map(folder.keys.map((one) => [one.key, one]))
  const record = keyed.get(recordIn(path))
  const term = keyed.get(termIn(path))
  const history = folder.keys.find(({ key }) => key.startsWith(`${path}history-`))?.key
  const kept = term && readKey(term.key, () => decodeTerm(election, term.value, () => ({})))
  return { ...currentOf(record && readRecord(election, record), kept), keys: { record, term, history } }
}

function readRecord(election: string, keyValue: ConsulKey): LeaseRecord {
  return readKey(keyValue.key, () => recordOf(election, keyValue.value, versionOf(keyValue)))
}

function currentOf(record: LeaseRecord | undefined, kept: TermRecord | undefined) {
  const highestTerm = Math.max(record?.term ?? 0, kept?.term ?? 0)
  return { record, highestTerm, remainingMs: undefined, lastDurationMs: kept?.leaseDurationMs, kept }
}

function readKey<T>(key: string, read: () => T): T {
  return readAt(`the Consul key "${key}"`, 'prefix', read)
}
