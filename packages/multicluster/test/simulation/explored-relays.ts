/**
 * Explores every behavior, within bounds, of electors whose calls go through the relays of their clusters. The relays
 * use the real decision code.
 */
import type { Fields } from '../../../tenure/src/engine/election-fields.ts'
import type { LeaseRecord } from '../../../tenure/src/engine/lease-store.ts'
import { setupOf, type ExploreOptions } from '../../../tenure/src/simulation/explore.ts'
import type { RelayModel } from '../../../tenure/src/simulation/explore/relay-model.ts'
import { exploreSetup, retraceSetup, type ExploreReport } from '../../../tenure/src/simulation/explore/run.ts'
import { leaseDurationMs, type Fault, type Setup } from '../../../tenure/src/simulation/explore/model-state.ts'
import { askedAgain, passedOn, retryAfterMs, shownBy } from '../../src/relayed-acquire.ts'
import { nothingSeen, withSight, type ElectionSights, type VersionSight } from '../../src/observed-versions.ts'

/** What to explore. By default each elector has its own cluster. */
export interface ExploredRelays extends Omit<ExploreOptions, 'faults' | 'watch' | 'expiry'> {
  readonly faults: readonly Fault[]
  /** The relays of each elector's cluster. Default: one relay for each elector. */
  readonly relaysOf?: readonly (readonly number[])[] | undefined
  /** Whether relays watch the store. */
  readonly relaysWatch?: boolean
}

/** Fields that no decision of a relay reads. */
const unread = {
  election: 'e',
  holder: '',
  attempt: '',
  acquiredAt: 0,
  renewedAt: 0,
  metadata: {},
  carry: '',
  mark: '',
}

function recordWith(fields: Fields, record: LeaseRecord): LeaseRecord {
  return {
    ...unread,
    term: fields.term(record.term),
    leaseDurationMs: fields.value(record.leaseDurationMs),
    released: fields.value(record.released),
    version: fields.version(record.version),
  }
}

function sightWith(fields: Fields, sight: VersionSight): VersionSight {
  return {
    version: fields.version(sight.version),
    record: fields.maybe(sight.record, recordWith),
    seenAtMs: fields.moment(sight.seenAtMs),
    holdsForMs: fields.value(sight.holdsForMs),
  }
}

function memoryWith(fields: Fields, seen: ElectionSights): ElectionSights {
  return {
    sight: fields.maybe(seen.sight, sightWith),
    past: seen.past,
    highestTerm: fields.term(seen.highestTerm),
    lastDurationMs: fields.value(seen.lastDurationMs),
  }
}

function betweenOf({ electors = 2, relaysOf, relaysWatch = false }: ExploredRelays): RelayModel<ElectionSights> {
  const of = relaysOf ?? Array.from({ length: electors }, (_, index) => [index])
  return {
    relays: Math.max(...of.flat()) + 1,
    relaysOf: of,
    watch: relaysWatch,
    blank: nothingSeen,
    passOn: (seen, claim) => passedOn(seen, claim, 0),
    again: (asked, passed, outcome) => askedAgain(asked, passed, outcome),
    take(seen, { outcome, record: found }) {
      const shown = shownBy(outcome ? { outcome } : { found }, leaseDurationMs)
      return withSight(seen, { ...shown, by: 'answer', nowMs: 0 })
    },
    hear: (seen, shown) => withSight(seen, { ...shown, by: 'event', nowMs: 0, absentForMs: leaseDurationMs }),
    tell(seen, outcome) {
      const atMs = retryAfterMs(seen, outcome, 0)
      return atMs === undefined ? outcome : { ...outcome, retryAfterMs: atMs }
    },
    show: ({ sight, highestTerm }) => sight && { record: sight.record && { ...sight.record, ...unread }, highestTerm },
    memoryWith,
    past: ({ past }) => past.map(({ version, seenAtMs }) => ({ key: version, atMs: seenAtMs })),
    withPast: (seen, past) => ({ ...seen, past: past.map(({ key, atMs }) => ({ version: key, seenAtMs: atMs })) }),
  }
}

/** Returns what stays constant during an exploration. */
export function relaySetup(explored: ExploredRelays): Setup {
  const { faults, relaysOf: _, relaysWatch: __, ...options } = explored
  return { ...setupOf({ ...options, watch: false }), faults: new Set(faults), between: betweenOf(explored) }
}

export function exploreRelays(options: ExploredRelays): Promise<ExploreReport> {
  const { budget = 1, seconds = 600, states = 20_000_000 } = options
  return exploreSetup(relaySetup(options), budget, { seconds, states })
}

/** Replays the trace of a violation and describes each step in words. */
export function retraceRelays(options: ExploredRelays, trace: readonly number[]): string {
  return retraceSetup(relaySetup(options), options.budget ?? 1, trace)
}
