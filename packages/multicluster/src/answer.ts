import type { LeaseRecord, Outcome } from 'tenure'
import type { MultiClusterAnswer, RelayedRecord } from 'tenure/stores/multicluster'
import { globalHolderOf, shownHolderOf } from './names.ts'

/** A global record as the resources of one cluster show it. */
export function relayedRecord(record: LeaseRecord, cluster: string): RelayedRecord {
  const known = relayed.get(record)
  if (known?.of === cluster) return known.as
  const as = makeRelayed(record, cluster)
  relayed.set(record, { of: cluster, as })
  return as
}

/** Each record is looked at several times. */
const relayed = new WeakMap<LeaseRecord, { readonly of: string; readonly as: RelayedRecord }>()

function makeRelayed(record: LeaseRecord, cluster: string): RelayedRecord {
  const { attempt, term, leaseDurationMs, released, carry, version, mark } = record
  return {
    ...shownHolderOf(record.holder, cluster),
    attempt,
    term,
    leaseDurationMs,
    acquiredAt: shownTime(record.acquiredAt),
    renewedAt: shownTime(record.renewedAt),
    released,
    metadata: JSON.stringify(record.metadata),
    carry,
    version,
    // Stores of before keep no marks.
    ...(typeof mark === 'string' && { mark }),
  }
}

/** The other way round: what a status shows, as the global store has it. */
export function globalRecord(
  record: RelayedRecord,
  place: { readonly cluster: string; readonly election: string },
): LeaseRecord {
  const { holder, cluster, metadata, ...rest } = record
  const isOwn = cluster === place.cluster && !holder.includes('/')
  const global = isOwn ? globalHolderOf(cluster, holder) : cluster === '' ? holder.slice(1) : holder
  return { ...rest, election: place.election, holder: global, metadata: parsed(metadata) }
}

function parsed(metadata: string): LeaseRecord['metadata'] {
  try {
    return JSON.parse(metadata) as LeaseRecord['metadata']
  } catch {
    return {}
  }
}

/** Its writer may have had any clock; the API server takes years of four digits. */
function shownTime(wallMs: number): number {
  return Math.round(Math.min(Math.max(wallMs, 0), lastTimeMs))
}

const lastTimeMs = Date.UTC(9999, 11, 31)

/** The answer to a read. */
export function answerFound(id: string, record: LeaseRecord | undefined, cluster: string): MultiClusterAnswer {
  return { id, ok: true, ...(record && { record: relayedRecord(record, cluster) }) }
}

/** The answer to a claim. `retryAfterMs` is added where the store cannot tell it. */
export function answerOutcome(
  id: string,
  outcome: Outcome,
  { cluster, retryAfterMs }: { readonly cluster: string; readonly retryAfterMs: number | undefined },
): MultiClusterAnswer {
  const record = outcome.record && { record: relayedRecord(outcome.record, cluster) }
  if (outcome.ok) return { id, ok: true, ...record, validForMs: wholeMs(outcome.validForMs) }
  return {
    id,
    ok: false,
    ...record,
    highestTerm: outcome.highestTerm,
    ...(retryAfterMs !== undefined && { retryAfterMs: Math.floor(retryAfterMs) }),
  }
}

/** Never rounded up: a holder must not believe for longer than it was granted. */
function wholeMs(ms: number): number {
  return ms < 1 ? ms : Math.floor(ms)
}

const longestMessage = 2048

/** The answer to what can never be carried out. */
export function answerError(id: string, code: string, message: string): MultiClusterAnswer {
  return { id, ok: false, error: { code, message: message.slice(0, longestMessage) } }
}
