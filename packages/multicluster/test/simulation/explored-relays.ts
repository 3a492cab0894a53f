/**
 * Explores every behavior, within bounds, of electors whose calls go through the relays of their clusters. The relays
 * use the real decision code.
 */
import type { FieldVisitor } from '../../../tenure/src/engine/election-fields.ts'
import type { LeaseRecord } from '../../../tenure/src/engine/lease-store.ts'
import {
  nothingObserved,
  observeRecord,
  type ObservedLease,
  type ObservedVersions,
} from '../../../tenure/src/engine/observed-expiry.ts'
import { setupOf, type ExploreOptions } from '../../../testing/src/simulation/explore.ts'
import type { RelayModel } from '../../../testing/src/simulation/explore/relay-model.ts'
import { exploreSetup, retraceSetup, type ExploreReport } from '../../../testing/src/simulation/explore/run.ts'
import { leaseDurationMs, type Fault, type Setup } from '../../../testing/src/simulation/explore/model-state.ts'
import { afterDeletion, askedAgain, relayedClaim, retryAfterMs, shownBy } from '../../src/calls/relayed-acquire.ts'

/** The parameters of an exploration. By default, each elector has its own cluster. */
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
  checkpoint: '',
  writeId: '',
}

function recordWith(fields: FieldVisitor, record: LeaseRecord): LeaseRecord {
  return {
    ...unread,
    term: fields.term(record.term),
    leaseDurationMs: fields.value(record.leaseDurationMs),
    released: fields.value(record.released),
    version: fields.version(record.version),
  }
}

function viewWith(fields: FieldVisitor, view: ObservedLease): ObservedLease {
  return {
    record: fields.maybe(view.record, recordWith),
    seenAtMs: fields.moment(view.seenAtMs),
    holdsForMs: fields.value(view.holdsForMs),
  }
}

function memoryWith(fields: FieldVisitor, seen: ObservedVersions): ObservedVersions {
  return {
    view: fields.maybe(seen.view, viewWith),
    seen: seen.seen,
    confirmed: undefined,
    highestTerm: fields.term(seen.highestTerm),
    lastDurationMs: fields.value(seen.lastDurationMs),
  }
}

function betweenOf({ electors = 2, relaysOf, relaysWatch = false }: ExploredRelays): RelayModel<ObservedVersions> {
  const of = relaysOf ?? Array.from({ length: electors }, (_, index) => [index])
  return {
    relays: Math.max(...of.flat()) + 1,
    relaysOf: of,
    watch: relaysWatch,
    blank: nothingObserved,
    passOn: (seen, claim) => relayedClaim(seen, claim, 0),
    again: (asked, passed, outcome) => askedAgain(asked, passed, outcome),
    take(seen, { outcome, record: found }) {
      const { record, absentForMs, highestTerm } = shownBy(outcome ? { outcome } : { found }, leaseDurationMs)
      return observeRecord(seen, { record, highestTerm, watched: false, nowMs: 0, ownDurationMs: absentForMs })
    },
    hear(seen, { record, highestTerm, durationMs: statusDurationMs = 0 }) {
      // A relay that has just started does not know the lease duration of its candidates yet.
      if (!record && highestTerm !== undefined) {
        return afterDeletion(seen, { highestTerm, statusDurationMs, ownDurationMs: 0, nowMs: 0 })
      }
      return observeRecord(seen, { record, highestTerm, watched: true, nowMs: 0, ownDurationMs: leaseDurationMs })
    },
    tell(seen, outcome) {
      const atMs = retryAfterMs(seen, outcome, 0)
      return atMs === undefined ? outcome : { ...outcome, retryAfterMs: atMs }
    },
    show: ({ view, highestTerm, lastDurationMs: durationMs }) =>
      view && { record: view.record && { ...view.record, ...unread }, highestTerm, durationMs },
    memoryWith,
    past: pastOf,
    withPast: (seen, past) => ({ ...seen, seen: past }),
  }
}

/**
 * Returns all versions that a relay remembers, including the one of the last answer. A relay treats all of them in the
 * same way as long as none of them is evicted.
 */
function pastOf({ seen, confirmed }: ObservedVersions): ObservedVersions['seen'] {
  return confirmed && !seen.some(({ key }) => key === confirmed.key) ? [...seen, confirmed] : seen
}

/** Returns the parts that stay constant during an exploration. */
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
