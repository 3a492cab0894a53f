import { systemClock, type Clock } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import type { CallOptions, LeaseStore } from '../engine/lease-store.ts'
import { checkClock } from '../engine/check-values.ts'
import { checkMembers, checkMethods, checkOptions } from '../common/check-options.ts'
import { listPage } from './list.ts'
import { decodeRecord, encodeRecord, recordOf, unusable } from './record.ts'
import { termInRecord, type Current, type RecordDraft } from './rules.ts'
import { swapStore, type SwapOutcome, type SwapServer } from './compare-and-swap-store.ts'

/** A value and the version that the backend assigned to it. Every write must change the version. */
export interface VersionedValue {
  readonly value: string
  readonly version: string
}

/** What `casStore` needs from a backend: a linearizable read and a conditional write of one string per election. */
export interface CompareAndSwap {
  /** Returns the newest value, never from a cache or a lagging replica. */
  get(election: string, options: CallOptions): Promise<VersionedValue | undefined>
  /**
   * Writes only if the version is still `version`, or, if `version` is undefined, only if there is no value. Returns
   * the new version, or undefined if the condition did not hold. If the outcome is uncertain, it must throw.
   */
  putIfVersion(
    election: string,
    value: string,
    version: string | undefined,
    options: CallOptions,
  ): Promise<string | undefined>
  /**
   * Removes the value only if the version is still `version`. Returns whether it did. If the outcome is uncertain, it
   * must throw. Without this method, the store cannot forget elections. With it, forgetting an election also forgets
   * its term.
   */
  removeIfVersion?(election: string, version: string, options: CallOptions): Promise<boolean>
  watch?(election: string, options: CallOptions): AsyncIterable<VersionedValue | undefined>
  /**
   * Returns a page of at most `limit` values after `after`, which is the `next` of the previous page, or undefined for
   * the first page. Any order is allowed. A page without `next` is the last one.
   */
  list?(
    page: { readonly after: string | undefined; readonly limit: number },
    options: CallOptions,
  ): Promise<{ readonly values: readonly VersionedValue[]; readonly next?: string | undefined }>
  close?(): Promise<void>
}

/**
 * Builds a lease store from anything that supports compare-and-swap. The candidates observe expiry.
 *
 * @example
 * const store = casStore({
 *   get: (election) => bucket.read(election),
 *   putIfVersion: (election, value, version) => bucket.writeIf(election, value, version),
 * })
 */
export function casStore(backend: CompareAndSwap, options: { clock?: Clock | undefined } = {}): LeaseStore {
  checkMethods('backend', backend, ['get', 'putIfVersion'], 'a compare-and-swap backend')
  checkMembers('backend', backend, ['removeIfVersion', 'watch', 'list', 'close'])
  checkOptions('casStore()', options, { clock: true })
  checkClock(options.clock)
  const { clock = systemClock } = options

  return swapStore(new CasServer(backend, clock), clock)
}

class CasServer implements SwapServer<Current> {
  readonly expiry = 'observed'
  readonly remove?: NonNullable<SwapServer<Current>['remove']>
  readonly watch?: NonNullable<SwapServer<Current>['watch']>
  readonly list?: NonNullable<SwapServer<Current>['list']>
  readonly #backend: CompareAndSwap
  readonly #clock: Clock

  constructor(backend: CompareAndSwap, clock: Clock) {
    this.#backend = backend
    this.#clock = clock
    const { removeIfVersion, watch, list } = backend
    if (removeIfVersion) {
      this.remove = async (election, { record }, withTerm, call) => {
        if (!withTerm) throw termInRecord(election)
        // Only `true` counts, because a client may return another truthy value when the condition did not hold.
        const removed: unknown = record && (await removeIfVersion.call(backend, election, record.version, call))
        return removed === true
      }
    }
    if (watch) this.watch = (election, call) => statesOf(election, () => watch.call(backend, election, call))
    if (list) {
      this.list = async (page, call) => {
        const { values, next } = await list.call(backend, page, call)
        return listPage(values, next, ({ value, version }) => ({ ...decodeRecord(value), version }))
      }
    }
  }

  async find(election: string, call: CallOptions): Promise<Current> {
    return foundOf(election, await this.#backend.get(election, call))
  }

  async swap(election: string, over: Current, draft: RecordDraft, call: CallOptions): Promise<SwapOutcome<Current>> {
    const value = encodeRecord(draft, () => this.#clock.randomId())
    const version = writtenVersion(await this.#backend.putIfVersion(election, value, over.record?.version, call))
    if (version === undefined) return { ok: false }
    const record = { ...draft, version }
    return { ok: true, found: { record, highestTerm: record.term, remainingMs: undefined } }
  }

  async close(): Promise<void> {
    await this.#backend.close?.()
  }
}

/** Opens the watch when it is first read, so that errors reach the reader. */
async function* statesOf(election: string, open: () => AsyncIterable<VersionedValue | undefined>) {
  for await (const found of open()) yield foundOf(election, found)
}

/**
 * Accepts only a string as a version. Many clients return null for "not written", which must never look like a grant.
 */
function writtenVersion(answer: unknown): string | undefined {
  if (answer === undefined || answer === null) return undefined
  if (typeof answer === 'string' && answer !== '') return answer
  throw new TenureError(
    'RECORD_INVALID',
    `putIfVersion returned ${typeOf(answer)}. It must return the new version as a non-empty string, or undefined if the condition did not hold.`,
  )
}

function foundOf(election: string, found: VersionedValue | null | undefined): Current {
  if (found === undefined || found === null) return { record: undefined, highestTerm: 0, remainingMs: undefined }
  for (const field of ['value', 'version'] as const) {
    const given: unknown = found[field]
    if (typeof given === 'string' && (given !== '' || field === 'value')) continue
    const rule = 'get must return { value, version }, two strings with a non-empty version'
    throw unusable(election, `${rule}, but its ${field} is ${typeOf(given)}`)
  }
  const record = recordOf(election, found.value, found.version)
  return { record, highestTerm: record.term, remainingMs: undefined }
}

function typeOf(value: unknown): string {
  if (value === undefined || value === null) return 'missing'
  if (value === '') return 'an empty string'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}
