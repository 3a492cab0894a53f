/**
 * Describes the meaning of each field of a state. `explore()` treats two states as equal if they differ only in ways
 * that do not matter: their absolute times, the spelling of their names, and the number at which their terms start. A
 * field with a wrong meaning here would make `explore()` merge states that differ.
 *
 * Each function returns its argument with every field passed through `fields`, which may be a writer or a reader.
 */
import type {
  Attempt,
  ElectionState,
  Ending,
  PendingCall,
  Grant,
  OwnAttempt,
  ObservedVersion,
  LeaseObservation,
} from './election-state.ts'
import type { LeaseRecord } from './lease-store.ts'

/** The possible meanings of a field. A field that passes through none of these is informational or constant. */
export interface Fields {
  /** A time that is only compared with now. All times in the past are equivalent. */
  due(ms: number): number
  /** Like `due`, on the clock that counts sleep. */
  heldDue(ms: number): number
  /** A time from which an age is computed. All times in the distant past are equivalent. */
  moment(ms: number): number
  /** Like `moment`, on the clock that counts sleep. */
  heldMoment(ms: number): number
  /** A term. It is compared with other terms and with 0. */
  term(term: number): number
  /** A name. It is compared with other names of its kind, and once forgotten it never occurs again. */
  attempt(name: string): string
  mark(name: string): string
  version(name: string): string
  /** A version, and whether it was released. */
  sight(key: string): string
  /** The id of a call, which matches an answer to its call. */
  call(id: number): number
  /** A value that is compared as it is. */
  value<T extends string | number | boolean>(value: T): T
  /** A value that may be undefined. */
  maybe<T>(value: T | undefined, of: (fields: Fields, value: T) => T): T | undefined
  each<T>(values: readonly T[], of: (fields: Fields, value: T) => T): readonly T[]
}

/** Passes every field of a record through `fields`. */
export function recordWith(fields: Fields, record: LeaseRecord): LeaseRecord {
  return {
    election: record.election,
    holder: fields.value(record.holder),
    attempt: fields.attempt(record.attempt),
    term: fields.term(record.term),
    leaseDurationMs: fields.value(record.leaseDurationMs),
    acquiredAt: record.acquiredAt,
    renewedAt: record.renewedAt,
    released: fields.value(record.released),
    metadata: record.metadata,
    carry: fields.value(record.carry),
    version: fields.version(record.version),
    mark: fields.maybe(record.mark, markWith),
    ranOut: record.ranOut,
  } satisfies { [K in keyof LeaseRecord]-?: unknown }
}

/**
 * Passes every field of a state through `fields`, except its settings, which never change, and its memory, which {@link
 * memoryWith} handles.
 */
export function stateWith(fields: Fields, state: ElectionState): ElectionState {
  return {
    settings: state.settings,
    phase: fields.value(state.phase),
    // The clock readings at the last input.
    nowMs: state.nowMs,
    sleptMs: state.sleptMs,
    highestTerm: fields.term(state.highestTerm),
    announcedTerm: fields.term(state.announcedTerm),
    own: state.own,
    calls: fields.call(state.calls),
    work: fields.value(state.work),
    flight: fields.maybe(state.flight, flightWith),
    attempt: fields.maybe(state.attempt, attemptWith),
    view: fields.maybe(state.view, viewWith),
    seen: state.seen,
    confirmed: state.confirmed,
    repliedAtMs: fields.moment(state.repliedAtMs),
    answeredInMs: fields.value(state.answeredInMs),
    lastDurationMs: fields.value(state.lastDurationMs),
    tryAtMs: fields.due(state.tryAtMs),
    // Only electors that stop on their own use these two fields and `gaveUp` in decisions.
    contendsSinceMs: state.contendsSinceMs,
    writeFailedAtMs: state.writeFailedAtMs,
    refusals: fields.value(state.refusals),
    cooldownUntilMs: fields.due(state.cooldownUntilMs),
    stopUntilMs: fields.maybe(state.stopUntilMs, dueWith),
    gaveUp: state.gaveUp,
    watch: fields.value(state.watch),
    rewatchAtMs: fields.due(state.rewatchAtMs),
    grant: fields.maybe(state.grant, grantWith),
    carry: fields.maybe(state.carry, valueWith),
    ending: fields.maybe(state.ending, endingWith),
  }
}

/** The memory of a state. A name in it only matters while the same name also occurs elsewhere. */
export type Memory = Pick<ElectionState, 'own' | 'seen' | 'confirmed'>

/** Passes every field of a state's memory through `fields`. */
export function memoryWith(fields: Fields, { own, seen, confirmed }: Memory): Memory {
  return {
    own: fields.each(own, ownWith),
    seen: fields.each(seen, sightWith),
    confirmed: fields.maybe(confirmed, sightWith),
  }
}

function ownWith(fields: Fields, { id, seen, sent }: OwnAttempt): OwnAttempt {
  return { id: fields.attempt(id), seen: fields.each(seen, markWith), sent: fields.each(sent, markWith) }
}

export function sightWith(fields: Fields, { key, atMs }: ObservedVersion): ObservedVersion {
  return { key: fields.sight(key), atMs: fields.moment(atMs) }
}

function flightWith(fields: Fields, flight: PendingCall): PendingCall {
  return {
    id: fields.call(flight.id),
    verb: fields.value(flight.verb),
    sentAtMs: fields.heldMoment(flight.sentAtMs),
    startedAtMs: fields.moment(flight.startedAtMs),
    carry: fields.maybe(flight.carry, valueWith),
  }
}

function attemptWith(fields: Fields, attempt: Attempt): Attempt {
  // An acquire that is sent again keeps its write id.
  fields.mark(attempt.id)
  return {
    id: fields.attempt(attempt.id),
    firstSentAtMs: fields.heldMoment(attempt.firstSentAtMs),
    afterTerm: fields.term(attempt.afterTerm),
    floorTerm: fields.term(attempt.floorTerm),
  }
}

function viewWith(fields: Fields, view: LeaseObservation): LeaseObservation {
  return {
    record: fields.maybe(view.record, recordWith),
    seenAtMs: fields.moment(view.seenAtMs),
    holdsForMs: fields.value(view.holdsForMs),
    retryAtMs: fields.maybe(view.retryAtMs, momentWith),
  }
}

function grantWith(fields: Fields, grant: Grant): Grant {
  return {
    record: recordWith(fields, grant.record),
    sentAtMs: fields.heldMoment(grant.sentAtMs),
    validForMs: fields.value(grant.validForMs),
    failures: fields.value(grant.failures),
    adoptions: fields.value(grant.adoptions),
    renewAtMs: fields.heldDue(grant.renewAtMs),
  }
}

function endingWith(fields: Fields, ending: Ending): Ending {
  return {
    term: fields.term(ending.term),
    reason: fields.value(ending.reason),
    next: fields.value(ending.next),
    voluntary: fields.value(ending.voluntary),
    told: fields.value(ending.told),
    drainUntilMs: fields.due(ending.drainUntilMs),
    // Also compared with the time of the next try.
    releaseUntilMs: fields.maybe(ending.releaseUntilMs, momentWith),
    cooldownMs: fields.value(ending.cooldownMs),
  }
}

export function dueWith(fields: Fields, ms: number): number {
  return fields.due(ms)
}

function momentWith(fields: Fields, ms: number): number {
  return fields.moment(ms)
}

export function markWith(fields: Fields, name: string): string {
  return fields.mark(name)
}

export function valueWith<T extends string | number | boolean>(fields: Fields, value: T): T {
  return fields.value(value)
}
