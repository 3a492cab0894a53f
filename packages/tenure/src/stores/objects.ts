/**
 * Two objects for each election, in a place that compares and swaps one object at a time: the record, and the highest
 * term, which outlives a record that somebody deletes.
 *
 * The record is written first, and a grant is answered or shown when the term's object has it too. So at every moment
 *
 * 1. each term that somebody may believe in is in the term's object: a record whose term is above the kept one was
 *    shown to nobody as a grant yet, and a process that finds it keeps its term first. A process that may not write
 *    terms gets an error instead, or, if it only reads, no record: its own attempt could be the one in the record;
 * 2. the kept term never runs ahead of the records. A record below it, or of another attempt in the same term, was
 *    claimed for an empty place and arrived late, after another grant was deleted there. Nobody was granted it, and
 *    nobody gets to see it: the place counts as one whose record has vanished.
 */
import type { Clock } from '../clock.ts'
import { isTenureError, TenureError } from '../errors.ts'
import type { CallOptions, LeaseRecord } from '../lease-store.ts'
import type { VersionedValue } from './cas.ts'
import { decodeTerm, encodeTerm, type KeptTerm } from './kept-term.ts'
import { listPage, type Page } from './list.ts'
import { decodeRecord, encodeRecord, readAt, recordOf, textField, unusable } from './record.ts'
import type { Current, Draft } from './rules.ts'
import { swapStore, type ClosableStore, type Swapped, type SwapServer } from './swap.ts'

/** Which of an election's two objects. */
export type Kind = 'record' | 'term'

/** What a place for objects must do. */
export interface ObjectPlace {
  /** The newest content, never one from a cache or a lagging replica. */
  get(election: string, kind: Kind, call: CallOptions): Promise<VersionedValue | undefined>
  /**
   * Writes only if the version is still `version` (undefined: only if there is no such object). Gives the new version,
   * or undefined if the condition did not hold. When the outcome is not known for sure, it must throw.
   */
  put(
    election: string,
    kind: Kind,
    text: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined>
  /**
   * Removes an object only if its version is still `version`; gives whether it did, or throws as `put` does. Left out
   * where the server does not judge conditions of removals: then nothing can be forgotten.
   */
  remove?(election: string, kind: Kind, version: string, call: CallOptions): Promise<boolean>
  /** A page of records, at most `limit` of them, from `after`, the `next` of the page before. */
  list(
    page: Page,
    call: CallOptions,
  ): Promise<{ readonly values: readonly VersionedValue[]; readonly next?: string | undefined }>
  /** How people call the place of an object, in errors. */
  nameOf(election: string, kind: Kind): string
}

interface AttemptedTerm extends KeptTerm {
  /** Whose grant it was. */
  readonly attempt: string
}

interface Found extends Current {
  /** Of the record's object, even where its record is not shown. */
  readonly recordVersion: string | undefined
  readonly kept: AttemptedTerm | undefined
  readonly keptVersion: string | undefined
}

/** Makes a lease store of a place for objects. Expiry is observed by the candidates. */
export function objectStore(place: ObjectPlace, clock: Clock): ClosableStore {
  const store = swapStore(new ObjectServer(place, clock), clock)
  return {
    ...store,
    async read(election, call) {
      try {
        return await store.read(election, call)
      } catch (error) {
        // A role that may only read sees every grant, because a grant's term is kept.
        if (error instanceof TermDenied) return undefined
        throw error
      }
    },
  }
}

/** The term of a record that was found could not be kept, because the caller may not write it. */
class TermDenied extends TenureError {}

function termDenied(error: unknown): never {
  if (!isTenureError(error) || error.code !== 'UNAUTHORIZED') throw error
  throw new TermDenied(error.code, `A grant counts once its term is kept, and that failed. ${error.message}`, {
    cause: error,
  })
}

class ObjectServer implements SwapServer<Found> {
  readonly expiry = 'observed'
  readonly remove?: NonNullable<SwapServer<Found>['remove']>
  readonly #place: ObjectPlace
  readonly #clock: Clock

  constructor(place: ObjectPlace, clock: Clock) {
    this.#place = place
    this.#clock = clock
    const { remove } = place
    if (!remove) return
    this.remove = async (election, { record, recordVersion = '', keptVersion }, withTerm, call) => {
      const removeTerm = (version = '') => remove.call(place, election, 'term', version, call)
      // The term first: a call that breaks off in between can be repeated, because the record is still there.
      if (withTerm && !(await removeTerm(keptVersion))) return false
      const isRemoved = await remove.call(place, election, 'record', recordVersion, call)
      // A process that found the record in between has kept its term again. The term of a grant that came after the
      // removal stays, although it may be as low: without it, that grant's term would be granted twice.
      const again = isRemoved && withTerm ? await this.#kept(election, call) : undefined
      if (again && again.value.attempt === record?.attempt) await removeTerm(again.version)
      return isRemoved
    }
  }

  async find(election: string, call: CallOptions): Promise<Found> {
    for (;;) {
      // One after the other: a record that is read later is never the older of the two.
      const kept = await this.#kept(election, call)
      const record = await this.#record(election, call)
      // Another duration in the same term is the holder's to keep: this record may be an old one by now.
      if (!record || (kept && record.term <= kept.value.term)) return foundOf(record, kept)
      const raised = await this.#raise(election, kept, record, call).catch(termDenied)
      if (raised) return foundOf(record, raised)
    }
  }

  async swap(election: string, over: Found, draft: Draft, call: CallOptions): Promise<Swapped<Found>> {
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

  /** Keeps the term of a record that was just written. Undefined if that was one that arrived late. */
  async #keep(election: string, over: Found, record: LeaseRecord, call: CallOptions): Promise<Kept | undefined> {
    const { term, leaseDurationMs } = record
    for (let kept = keptOf(over); ;) {
      if (isLate(record, kept?.value)) return undefined
      // Most renewals leave it as it is.
      if (kept?.value.term === term && kept.value.leaseDurationMs === leaseDurationMs) return kept
      const raised = await this.#raise(election, kept, record, call)
      if (raised) return raised
      kept = await this.#kept(election, call)
    }
  }

  /** Writes the term of a record over the kept one. Undefined if that has changed. */
  async #raise(
    election: string,
    kept: Kept | undefined,
    { term, attempt, leaseDurationMs }: LeaseRecord,
    call: CallOptions,
  ): Promise<Kept | undefined> {
    const value = { term, attempt, leaseDurationMs }
    const text = encodeTerm(election, value, this.#clock.randomId())
    const version = await this.#place.put(election, 'term', text, kept?.version, call)
    return version === undefined ? undefined : { value, version }
  }

  #record(election: string, call: CallOptions): Promise<LeaseRecord | undefined> {
    return this.#read(election, 'record', call, ({ value, version }) => recordOf(election, value, version))
  }

  #kept(election: string, call: CallOptions): Promise<Kept | undefined> {
    return this.#read(election, 'term', call, ({ value, version }) => ({ value: readTerm(election, value), version }))
  }

  async #read<T>(
    election: string,
    kind: Kind,
    call: CallOptions,
    decode: (found: VersionedValue) => T,
  ): Promise<T | undefined> {
    const found = await this.#place.get(election, kind, call)
    if (!found) return undefined
    return readAt(this.#place.nameOf(election, kind), 'place', () => {
      if (found.version === '') throw unusable(election, 'it came without a version')
      return decode(found)
    })
  }
}

interface Kept {
  readonly value: AttemptedTerm
  readonly version: string
}

function keptOf({ kept, keptVersion }: Found): Kept | undefined {
  return kept && keptVersion !== undefined ? { value: kept, version: keptVersion } : undefined
}

/** Whether a record arrived after a grant that was deleted since (2). */
function isLate(record: LeaseRecord | undefined, kept: AttemptedTerm | undefined): boolean {
  if (!record || !kept) return false
  return record.term < kept.term || (record.term === kept.term && record.attempt !== kept.attempt)
}

function foundOf(record: LeaseRecord | undefined, kept: Kept | undefined): Found {
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

function readTerm(election: string, text: string): AttemptedTerm {
  return decodeTerm(election, text, (value) => ({ attempt: textField(value, 'attempt') }))
}
