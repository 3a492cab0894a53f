/**
 * What each field of a state means. `explore()` takes states for one that differ only in what means nothing: when they
 * are, how their names are spelled, and where their terms begin. A field with a wrong meaning here makes it blind.
 *
 * Each function gives back what it was given, with each field as `fields` has it: one that writes, or one that reads.
 */
import type { Attempt, ElectionState, Ending, Flight, Grant, OwnAttempt, Sight, View } from './election-state.ts'
import type { LeaseRecord } from './lease-store.ts'

/** What a field can mean. What is not passed through one of these is for people, or never changes. */
export interface Fields {
  /** A moment that is only ever compared with now. Those that have passed are alike. */
  due(ms: number): number
  /** The same on the clock that counts sleep. */
  heldDue(ms: number): number
  /** A moment from which something is counted, as an age is. Those of long ago are alike. */
  moment(ms: number): number
  /** The same on the clock that counts sleep. */
  heldMoment(ms: number): number
  /** Compared with other terms, and with 0. */
  term(term: number): number
  /** A name, compared with its like. What is forgotten never comes again. */
  attempt(name: string): string
  mark(name: string): string
  version(name: string): string
  /** A version, and whether it was released. */
  sight(key: string): string
  /** Counts calls, so that each answer finds its own. */
  call(id: number): number
  /** Means what it says. */
  value<T extends string | number | boolean>(value: T): T
  /** Something that may be missing. */
  maybe<T>(value: T | undefined, of: (fields: Fields, value: T) => T): T | undefined
  each<T>(values: readonly T[], of: (fields: Fields, value: T) => T): readonly T[]
}

/** A record, field by field. */
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

/** A state, field by field, without what it remembers: {@link memoryWith}. Its settings never change. */
export function stateWith(fields: Fields, state: ElectionState): ElectionState {
  return {
    settings: state.settings,
    phase: fields.value(state.phase),
    // The clocks themselves, at the last input.
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
    // Only electors that stop by themselves decide by these two and by `gaveUp`.
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

/** What only remembers: a name in it matters as long as it is somewhere else too. */
export type Memory = Pick<ElectionState, 'own' | 'seen' | 'confirmed'>

/** What a state remembers, field by field. */
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

export function sightWith(fields: Fields, { key, atMs }: Sight): Sight {
  return { key: fields.sight(key), atMs: fields.moment(atMs) }
}

function flightWith(fields: Fields, flight: Flight): Flight {
  return {
    id: fields.call(flight.id),
    verb: fields.value(flight.verb),
    sentAtMs: fields.heldMoment(flight.sentAtMs),
    startedAtMs: fields.moment(flight.startedAtMs),
    carry: fields.maybe(flight.carry, valueWith),
  }
}

function attemptWith(fields: Fields, attempt: Attempt): Attempt {
  // An acquire that is sent again has the mark that it had.
  fields.mark(attempt.id)
  return {
    id: fields.attempt(attempt.id),
    firstSentAtMs: fields.heldMoment(attempt.firstSentAtMs),
    afterTerm: fields.term(attempt.afterTerm),
    floorTerm: fields.term(attempt.floorTerm),
  }
}

function viewWith(fields: Fields, view: View): View {
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
    // Compared with the moment of the next try, too.
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
