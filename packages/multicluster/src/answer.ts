import type { LeaseRecord, Outcome } from 'tenure'
import type { MultiClusterAnswer, RelayedRecord } from 'tenure/stores/multicluster'
import { globalHolderOf, displayedHolderOf } from './names.ts'

/** Converts a global record to the form that the resources of one cluster show. */
export function relayedRecord(record: LeaseRecord, cluster: string): RelayedRecord {
  const known = relayed.get(record)
  if (known?.of === cluster) return known.as
  const as = makeRelayed(record, cluster)
  relayed.set(record, { of: cluster, as })
  return as
}

/** A cache, because each record is converted several times. */
const relayed = new WeakMap<LeaseRecord, { readonly of: string; readonly as: RelayedRecord }>()

function makeRelayed(record: LeaseRecord, cluster: string): RelayedRecord {
  const { attempt, term, leaseDurationMs, released, carry, version, mark } = record
  return {
    ...displayedHolderOf(record.holder, cluster),
    attempt,
    term,
    leaseDurationMs,
    acquiredAt: shownTime(record.acquiredAt),
    renewedAt: shownTime(record.renewedAt),
    released,
    metadata: JSON.stringify(record.metadata),
    carry,
    version,
    // Older stores keep no write ids.
    ...(typeof mark === 'string' && { mark }),
  }
}

/** The reverse of {@link relayedRecord}: converts a record in a status to the form of the global store. */
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

/** Limits a time for the API server, which accepts only four-digit years. The writer's clock may show any time. */
function shownTime(wallMs: number): number {
  return Math.round(Math.min(Math.max(wallMs, 0), lastTimeMs))
}

const lastTimeMs = Date.UTC(9999, 11, 31)

/** The answer to a read. */
export function answerFound(id: string, record: LeaseRecord | undefined, cluster: string): MultiClusterAnswer {
  return { id, ok: true, ...(record && { record: relayedRecord(record, cluster) }) }
}

/** The answer to a claim. `retryAfterMs` is set if the relay knows it and the store does not. */
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

/** Rounds down, because a holder must not believe for longer than it was granted. */
function wholeMs(ms: number): number {
  return ms < 1 ? ms : Math.floor(ms)
}

const longestMessage = 2048

/** The answer to a request that can never succeed. */
export function answerError(id: string, code: string, message: string): MultiClusterAnswer {
  return { id, ok: false, error: { code, message: message.slice(0, longestMessage) } }
}
