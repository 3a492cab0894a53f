/**
 * Describes the meaning of each field of a state. `explore()` treats two states as equal if they differ only in ways
 * that do not matter: their absolute times, the spelling of their names, and the number at which their terms start. If
 * a field had the wrong meaning here, `explore()` would merge states that differ.
 *
 * Each function returns its argument with every field passed through `fields`, which may be a writer or a reader.
 */
import type { Attempt, ElectionState, Ending, PendingCall, Grant, OwnAttempt } from './election-state.ts'
import type { LeaseRecord } from './lease-store.ts'
import type { ObservedVersion } from './observed-expiry.ts'
import type { LeaseObservation, NewerGeneration, PreferenceState } from './preference.ts'

/** The possible meanings of a field. A field that passes through none of these is informational or constant. */
export interface FieldVisitor {
  /** A time that is only compared with now. All times in the past are equivalent. */
  due(ms: number): number
  /** A `due` time on the clock that counts sleep. */
  heldDue(ms: number): number
  /** A time from which an age is computed. All times in the distant past are equivalent. */
  moment(ms: number): number
  /** A `moment` on the clock that counts sleep. */
  heldMoment(ms: number): number
  /** A time that is only compared with one `moment`, of which it asks whether that was earlier. */
  since(ms: number, moment: number): number
  /** A term. It is compared with other terms and with 0. */
  term(term: number): number
  /** A name. It is compared with other names of its kind, and once forgotten it never occurs again. */
  attempt(name: string): string
  writeId(name: string): string
  version(name: string): string
  /** The key of an observed version: the version, and whether the record was released. */
  sight(key: string): string
  /** The id of a call, which matches an answer to its call. */
  call(id: number): number
  /** A value that is compared without any conversion. */
  value<T extends string | number | boolean>(value: T): T
  /** A value that may be undefined. */
  maybe<T>(value: T | undefined, of: (fields: FieldVisitor, value: T) => T): T | undefined
  each<T>(values: readonly T[], of: (fields: FieldVisitor, value: T) => T): readonly T[]
}

/** Passes every field of a record through `fields`. */
export function recordWith(fields: FieldVisitor, record: LeaseRecord): LeaseRecord {
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
    checkpoint: fields.value(record.checkpoint),
    version: fields.version(record.version),
    writeId: fields.maybe(record.writeId, writeIdWith),
    successor: fields.maybe(record.successor, valueWith),
    expired: record.expired,
  } satisfies { [K in keyof LeaseRecord]-?: unknown }
}

/**
 * Passes every field of a state through `fields`, except its settings, which never change, and its memory, which {@link
 * memoryWith} handles.
 */
export function stateWith(fields: FieldVisitor, state: ElectionState): ElectionState {
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
    lastReplyAtMs: fields.moment(state.lastReplyAtMs),
    answeredInMs: fields.value(state.answeredInMs),
    lastDurationMs: fields.value(state.lastDurationMs),
    tryAtMs: fields.due(state.tryAtMs),
    // Only electors that stop on their own compare it with other times.
    contendsSinceMs: fields.since(state.contendsSinceMs, state.lastReplyAtMs),
    // Only such electors use this field and `gaveUp` in decisions.
    writeFailedAtMs: state.writeFailedAtMs,
    refusals: fields.value(state.refusals),
    cooldownUntilMs: fields.due(state.cooldownUntilMs),
    stopUntilMs: fields.maybe(state.stopUntilMs, dueWith),
    gaveUp: state.gaveUp,
    watch: fields.value(state.watch),
    rewatchAtMs: fields.due(state.rewatchAtMs),
    grant: fields.maybe(state.grant, grantWith),
    checkpoint: fields.maybe(state.checkpoint, valueWith),
    ending: fields.maybe(state.ending, endingWith),
    preference: preferenceWith(fields, state.preference),
  }
}

/**
 * The lists in which a state remembers attempts and versions. A name in them matters only while the same name also
 * occurs elsewhere.
 */
export type Memory = Pick<ElectionState, 'own' | 'seen' | 'confirmed'>

/** Passes every field of a state's memory through `fields`. */
export function memoryWith(fields: FieldVisitor, { own, seen, confirmed }: Memory): Memory {
  return {
    own: fields.each(own, ownWith),
    seen: fields.each(seen, sightWith),
    confirmed: fields.maybe(confirmed, sightWith),
  }
}

function ownWith(fields: FieldVisitor, { id, seen, sent }: OwnAttempt): OwnAttempt {
  return { id: fields.attempt(id), seen: fields.each(seen, writeIdWith), sent: fields.each(sent, writeIdWith) }
}

/** Passes every field of an observed version through `fields`. */
export function sightWith(fields: FieldVisitor, { key, atMs }: ObservedVersion): ObservedVersion {
  return { key: fields.sight(key), atMs: fields.moment(atMs) }
}

function flightWith(fields: FieldVisitor, flight: PendingCall): PendingCall {
  return {
    id: fields.call(flight.id),
    verb: fields.value(flight.verb),
    sentAtMs: fields.heldMoment(flight.sentAtMs),
    startedAtMs: fields.moment(flight.startedAtMs),
    checkpoint: fields.maybe(flight.checkpoint, valueWith),
  }
}

function attemptWith(fields: FieldVisitor, attempt: Attempt): Attempt {
  // An acquire that is sent again keeps its write id.
  fields.writeId(attempt.id)
  return {
    id: fields.attempt(attempt.id),
    firstSentAtMs: fields.heldMoment(attempt.firstSentAtMs),
    afterTerm: fields.term(attempt.afterTerm),
    floorTerm: fields.term(attempt.floorTerm),
  }
}

function viewWith(fields: FieldVisitor, view: LeaseObservation): LeaseObservation {
  return {
    record: fields.maybe(view.record, recordWith),
    seenAtMs: fields.moment(view.seenAtMs),
    holdsForMs: fields.value(view.holdsForMs),
    retryAtMs: fields.maybe(view.retryAtMs, momentWith),
    blockedUntilMs: fields.maybe(view.blockedUntilMs, momentWith),
    isOldRelease: fields.value(view.isOldRelease),
  }
}

function newerWith(fields: FieldVisitor, { generation, untilMs }: NewerGeneration): NewerGeneration {
  return { generation, untilMs: fields.due(untilMs) }
}

function preferenceWith(fields: FieldVisitor, preference: PreferenceState): PreferenceState {
  return {
    eligible: fields.value(preference.eligible),
    priority: fields.value(preference.priority),
    askedAtMs: fields.moment(preference.askedAtMs),
    ineligibleSinceMs: fields.maybe(preference.ineligibleSinceMs, momentWith),
    probationUntilMs: fields.due(preference.probationUntilMs),
    progressedAtMs: fields.moment(preference.progressedAtMs),
    newer: fields.maybe(preference.newer, newerWith),
  }
}

function grantWith(fields: FieldVisitor, grant: Grant): Grant {
  return {
    record: recordWith(fields, grant.record),
    sentAtMs: fields.heldMoment(grant.sentAtMs),
    validForMs: fields.value(grant.validForMs),
    failures: fields.value(grant.failures),
    adoptions: fields.value(grant.adoptions),
    renewAtMs: fields.heldDue(grant.renewAtMs),
  }
}

function endingWith(fields: FieldVisitor, ending: Ending): Ending {
  return {
    term: fields.term(ending.term),
    reason: fields.value(ending.reason),
    next: fields.value(ending.next),
    voluntary: fields.value(ending.voluntary),
    told: fields.value(ending.told),
    drainUntilMs: fields.due(ending.drainUntilMs),
    // This time is also compared with the time of the next try.
    releaseUntilMs: fields.maybe(ending.releaseUntilMs, momentWith),
    cooldownMs: fields.value(ending.cooldownMs),
    successor: fields.maybe(ending.successor, valueWith),
  }
}

/** {@link FieldVisitor.due} as a function, for `maybe` and `each`. */
export function dueWith(fields: FieldVisitor, ms: number): number {
  return fields.due(ms)
}

function momentWith(fields: FieldVisitor, ms: number): number {
  return fields.moment(ms)
}

/** {@link FieldVisitor.writeId} as a function, for `maybe` and `each`. */
export function writeIdWith(fields: FieldVisitor, name: string): string {
  return fields.writeId(name)
}

/** {@link FieldVisitor.value} as a function, for `maybe` and `each`. */
export function valueWith<T extends string | number | boolean>(fields: FieldVisitor, value: T): T {
  return fields.value(value)
}
