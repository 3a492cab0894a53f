/**
 * Keeps two objects per election, for storage that can compare-and-swap one object at a time: the record, and the
 * highest term, which survives if someone deletes the record.
 *
 * The record is written first. A grant is answered or shown only once the term object also contains its term. So at
 * every moment:
 *
 * 1. Each term that a candidate may believe in is in the term object. A record whose term is above the recorded one has
 *    not been shown to anyone as a grant yet, and a process that finds it records its term first. A process that may
 *    not write terms gets an error instead or, if it only reads, no record: its own attempt could be the one in the
 *    record.
 * 2. The recorded term is never ahead of the records. A record below it, or of another attempt in the same term, was
 *    claimed while there was no record and arrived late, after another grant was deleted there. It was granted to
 *    nobody and is shown to nobody: the election counts as one whose record was deleted.
 */
import { ownCheckpointLimitBytes } from '../engine/check-values.ts'
import type { Clock } from '../common/clock.ts'
import { isTenureError, TenureError } from '../common/errors.ts'
import type { CallOptions, LeaseRecord } from '../engine/lease-store.ts'
import type { VersionedValue } from './cas-store.ts'
import { decodeTerm, encodeTerm, type TermRecord } from './term-record.ts'
import { listPage, type Page } from './list.ts'
import { decodeRecord, encodeRecord, readAt, recordOf, unusable } from './record.ts'
import type { Current, RecordDraft } from './rules.ts'
import { swapStore, type ClosableStore, type SwapOutcome, type SwapServer } from './compare-and-swap-store.ts'

/** Names one of an election's two objects. */
export type ObjectKind = 'record' | 'term'

/** The content of an election's two objects. */
export interface ObjectPair {
  readonly record: VersionedValue | undefined
  readonly term: VersionedValue | undefined
}

/** The operations that the storage for the two objects must implement. */
export interface ObjectBackend {
  /** Returns the newest content, never from a cache or a lagging replica. */
  get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined>
  /** Returns the newest content of both objects, at one moment. Undefined if the server reads one object at a time. */
  getBoth?(election: string, call: CallOptions): Promise<ObjectPair>
  /**
   * Writes only if the version is still `version`, or, if `version` is undefined, only if there is no such object.
   * Returns the new version, or undefined if the condition did not hold. If the outcome is uncertain, it must throw.
   */
  put(
    election: string,
    kind: ObjectKind,
    text: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined>
  /**
   * Removes an object only if its version is still `version`. Returns whether it did, or throws as `put` does.
   * Undefined if the server does not support conditional removal. In that case, elections cannot be forgotten.
   */
  remove?(election: string, kind: ObjectKind, version: string, call: CallOptions): Promise<boolean>
  /** Yields the current content, then each change. It may lag and skip changes. */
  watch?(election: string, call: CallOptions): AsyncIterable<ObjectPair>
  /** A page of at most `limit` records after `after`, the `next` of the previous page. */
  list(
    page: Page,
    call: CallOptions,
  ): Promise<{ readonly values: readonly VersionedValue[]; readonly next?: string | undefined }>
  /** The location of an object, for error messages. */
  nameOf(election: string, kind: ObjectKind): string
}

interface AttemptTermRecord extends TermRecord {
  /** The attempt that was granted the term. */
  readonly attempt: string
}

interface FoundObjects extends Current {
  /** Version of the record's object, even if its record is not shown. */
  readonly recordVersion: string | undefined
  readonly kept: AttemptTermRecord | undefined
  readonly keptVersion: string | undefined
}

/** Builds a lease store from storage for objects. The candidates observe expiry. */
export function twoObjectStore(backend: ObjectBackend, clock: Clock): ClosableStore {
  const store = swapStore(new ObjectServer(backend, clock), clock)
  return {
    ...store,
    async read(election, call) {
      try {
        return await store.read(election, call)
      } catch (error) {
        // A read-only role still sees every grant, because the term of a grant is already recorded.
        if (error instanceof TermDenied) return undefined
        throw error
      }
    },
  }
}

/** The term of a found record could not be recorded, because the caller may not write it. */
class TermDenied extends TenureError {}

function termDenied(error: unknown): never {
  if (!isTenureError(error) || error.code !== 'UNAUTHORIZED') throw error
  throw new TermDenied(error.code, `A grant counts only once its term is recorded, and that failed. ${error.message}`, {
    cause: error,
  })
}

class ObjectServer implements SwapServer<FoundObjects> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = true
  readonly remove?: NonNullable<SwapServer<FoundObjects>['remove']>
  readonly watch?: NonNullable<SwapServer<FoundObjects>['watch']>
  readonly #place: ObjectBackend
  readonly #clock: Clock

  constructor(backend: ObjectBackend, clock: Clock) {
    this.#place = backend
    this.#clock = clock
    const { remove, watch } = backend
    if (watch) this.watch = (election, call) => this.#changes(election, watch.call(backend, election, call))
    if (!remove) return
    this.remove = async (election, { record, recordVersion = '', keptVersion }, withTerm, call) => {
      const removeTerm = (version = '') => remove.call(backend, election, 'term', version, call)
      // Remove the term first. If the call fails in between, it can be repeated, because the record still exists.
      if (withTerm && !(await removeTerm(keptVersion))) return false
      const isRemoved = await remove.call(backend, election, 'record', recordVersion, call)
      // A process that found the record in between may have recorded its term again. Remove that as well. The term of a
      // grant made after the removal stays, even if it is just as low. Without it, that term would be granted twice.
      const again = isRemoved && withTerm ? await this.#kept(election, call) : undefined
      if (again && again.value.attempt === record?.attempt) await removeTerm(again.version)
      return isRemoved
    }
  }

  async find(election: string, call: CallOptions): Promise<FoundObjects> {
    for (;;) {
      const { record, kept } = await this.#both(election, call)
      if (!record || isRecorded(record, kept)) return foundOf(record, kept)
      const raised = await this.#raise(election, kept, record, call).catch(termDenied)
      if (raised) return foundOf(record, raised)
    }
  }

  async swap(
    election: string,
    over: FoundObjects,
    draft: RecordDraft,
    call: CallOptions,
  ): Promise<SwapOutcome<FoundObjects>> {
    const text = encodeRecord(draft, () => this.#clock.randomId())
    const version = await this.#place.put(election, 'record', text, over.recordVersion, call)
    if (version === undefined) return { ok: false }
    const record = { ...draft, version }
    const kept = await this.#keep(election, over, record, call)
    return kept ? { ok: true, found: { ...foundOf(record, kept), record } } : { ok: false }
  }

  async list(page: Page, call: CallOptions) {
    const { values, next } = await this.#place.list(page, call)
    return listPage(values, next, ({ value, version }) => ({ ...decodeRecord(value), version }))
  }

  /** Leaves out a record whose term is not recorded yet (1). The change that records it follows. */
  async *#changes(election: string, pairs: AsyncIterable<ObjectPair>): AsyncGenerator<FoundObjects, void, undefined> {
    for await (const pair of pairs) {
      const record = this.#decodeRecord(election, pair.record)
      const kept = this.#decodeTerm(election, pair.term)
      if (!record || isRecorded(record, kept)) yield foundOf(record, kept)
    }
  }

  async #both(election: string, call: CallOptions) {
    const { getBoth } = this.#place
    if (getBoth) {
      const { record, term } = await getBoth.call(this.#place, election, call)
      return { record: this.#decodeRecord(election, record), kept: this.#decodeTerm(election, term) }
    }
    // Read the term first, then the record, so that the record is never the older of the two.
    const kept = await this.#kept(election, call)
    return { kept, record: this.#decodeRecord(election, await this.#place.get(election, 'record', call)) }
  }

  /** Records the term of a record that was just written. Returns undefined if the record arrived late (2). */
  async #keep(
    election: string,
    over: FoundObjects,
    record: LeaseRecord,
    call: CallOptions,
  ): Promise<StoredTermRecord | undefined> {
    const { term, leaseDurationMs } = record
    for (let kept = termRecordOf(over); ;) {
      if (isLate(record, kept?.value)) return undefined
      // Most renewals leave the term object unchanged.
      if (kept?.value.term === term && kept.value.leaseDurationMs === leaseDurationMs) return kept
      const raised = await this.#raise(election, kept, record, call)
      if (raised) return raised
      kept = await this.#kept(election, call)
    }
  }

  /**
   * Overwrites the recorded term with a record's term. Returns undefined if the term object has changed in the
   * meantime.
   */
  async #raise(
    election: string,
    kept: StoredTermRecord | undefined,
    { term, attempt, leaseDurationMs }: LeaseRecord,
    call: CallOptions,
  ): Promise<StoredTermRecord | undefined> {
    const value = { term, attempt, leaseDurationMs }
    const text = encodeTerm(election, value, this.#clock.randomId())
    const version = await this.#place.put(election, 'term', text, kept?.version, call)
    return version === undefined ? undefined : { value, version }
  }

  async #kept(election: string, call: CallOptions): Promise<StoredTermRecord | undefined> {
    return this.#decodeTerm(election, await this.#place.get(election, 'term', call))
  }

  #decodeRecord(election: string, found: VersionedValue | undefined): LeaseRecord | undefined {
    return this.#decode(election, 'record', found, ({ value, version }) => recordOf(election, value, version))
  }

  #decodeTerm(election: string, found: VersionedValue | undefined): StoredTermRecord | undefined {
    return this.#decode(election, 'term', found, ({ value, version }) => ({
      value: readTerm(election, value),
      version,
    }))
  }

  #decode<T>(
    election: string,
    kind: ObjectKind,
    found: VersionedValue | undefined,
    decode: (found: VersionedValue) => T,
  ): T | undefined {
    if (!found) return undefined
    return readAt(this.#place.nameOf(election, kind), 'place', () => {
      if (found.version === '') throw unusable(election, 'the server returned it without a version')
      return decode(found)
    })
  }
}

interface StoredTermRecord {
  readonly value: AttemptTermRecord
  readonly version: string
}

function termRecordOf({ kept, keptVersion }: FoundObjects): StoredTermRecord | undefined {
  return kept && keptVersion !== undefined ? { value: kept, version: keptVersion } : undefined
}

/**
 * True if the record's term is recorded (1). If only the duration differs within the same term, it is left to the
 * holder: the record may already be outdated.
 */
function isRecorded(record: LeaseRecord, kept: StoredTermRecord | undefined): boolean {
  return kept !== undefined && record.term <= kept.value.term
}

/** True if a record arrived after another grant that has been deleted since (2). */
function isLate(record: LeaseRecord | undefined, kept: AttemptTermRecord | undefined): boolean {
  if (!record || !kept) return false
  return record.term < kept.term || (record.term === kept.term && record.attempt !== kept.attempt)
}

function foundOf(record: LeaseRecord | undefined, kept: StoredTermRecord | undefined): FoundObjects {
  const { value } = kept ?? {}
  return {
    record: isLate(record, value) ? undefined : record,
    recordVersion: record?.version,
    highestTerm: Math.max(record?.term ?? 0, value?.term ?? 0),
    remainingMs: undefined,
    lastDurationMs: value?.leaseDurationMs,
    kept: value,
    keptVersion: kept?.version,
  }
}

function readTerm(election: string, text: string): AttemptTermRecord {
  return decodeTerm(election, text, (fields) => ({ attempt: fields.text('attempt') }))
}
