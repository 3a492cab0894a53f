/**
 * What each field of a state means. `explore()` takes states for one that differ only in what means nothing: when they
 * are, how their names are spelled, and where their terms begin. A field with a wrong meaning here makes it blind.
 */
import type { Attempt, ElectionState, Ending, Flight, Grant, OwnAttempt, Sight, View } from './election-state.ts'
import type { LeaseRecord, Metadata } from './lease-store.ts'

/**
 * - `due`: a moment that is only ever compared with now. Those that have passed are alike.
 * - `moment`: one from which something is counted, as an age is. Those of long ago are alike.
 * - `held due`, `held moment`: the same on the clock that counts sleep.
 * - `now`: the clock itself, at the last input.
 * - `term`: compared with other terms, and with 0.
 * - `attempt`, `mark`, `version`: names, compared by equality with their like. What is forgotten never comes again.
 * - `sight`: a version, and whether it was released.
 * - `call`: counts calls, so that each answer finds its own.
 * - `value`: means what it says.
 * - `shown`: for people, or for electors that are not to wait. No other decision reads it.
 */
export type Meaning =
  | 'due'
  | 'moment'
  | 'held due'
  | 'held moment'
  | 'now'
  | 'term'
  | 'attempt'
  | 'mark'
  | 'version'
  | 'sight'
  | 'call'
  | 'value'
  | 'shown'

/** The meaning of everything in an object. */
export type Meanings<T> = { readonly [K in keyof T]-?: MeaningOf<NonNullable<T[K]>> }

type MeaningOf<V> = V extends readonly (infer Element)[]
  ? MeaningOf<Element>
  : V extends Metadata
    ? 'shown'
    : V extends object
      ? Meanings<V>
      : Meaning

/** What the fields of a record mean. */
export const recordFields: Meanings<LeaseRecord> = {
  election: 'shown',
  holder: 'value',
  attempt: 'attempt',
  term: 'term',
  leaseDurationMs: 'value',
  acquiredAt: 'shown',
  renewedAt: 'shown',
  released: 'value',
  metadata: 'shown',
  carry: 'value',
  version: 'version',
  mark: 'mark',
  ranOut: 'shown',
}

const sight: Meanings<Sight> = { key: 'sight', atMs: 'moment' }

const own: Meanings<OwnAttempt> = { id: 'attempt', seen: 'mark', sent: 'mark' }

const flight: Meanings<Flight> = {
  id: 'call',
  verb: 'value',
  sentAtMs: 'held moment',
  startedAtMs: 'moment',
  carry: 'value',
}

const attempt: Meanings<Attempt> = {
  id: 'attempt',
  firstSentAtMs: 'held moment',
  afterTerm: 'term',
  floorTerm: 'term',
}

const view: Meanings<View> = {
  record: recordFields,
  seenAtMs: 'moment',
  holdsForMs: 'value',
  retryAtMs: 'moment',
}

const grant: Meanings<Grant> = {
  record: recordFields,
  sentAtMs: 'held moment',
  validForMs: 'value',
  failures: 'value',
  adoptions: 'value',
  renewAtMs: 'held due',
}

const ending: Meanings<Ending> = {
  term: 'term',
  reason: 'value',
  next: 'value',
  voluntary: 'value',
  told: 'value',
  drainUntilMs: 'due',
  releaseUntilMs: 'due',
  cooldownMs: 'value',
}

/** What the fields of a state mean. Its settings never change. */
export const stateFields: Meanings<Omit<ElectionState, 'settings' | 'gaveUp'>> & { readonly gaveUp: 'shown' } = {
  phase: 'value',
  nowMs: 'now',
  sleptMs: 'now',
  highestTerm: 'term',
  announcedTerm: 'term',
  own,
  calls: 'call',
  work: 'value',
  flight,
  attempt,
  view,
  seen: sight,
  confirmed: sight,
  repliedAtMs: 'moment',
  answeredInMs: 'value',
  lastDurationMs: 'value',
  tryAtMs: 'due',
  contendsSinceMs: 'shown',
  refusals: 'value',
  cooldownUntilMs: 'due',
  stopUntilMs: 'due',
  gaveUp: 'shown',
  watch: 'value',
  rewatchAtMs: 'due',
  grant,
  carry: 'value',
  ending,
}
