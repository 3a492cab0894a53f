/**
 * How a record is kept in a Lease, the object that client-go's electors use too. Holder, duration, times and term are the
 * Lease's own fields, so that both understand each other. The rest is in annotations, which client-go leaves unchanged.
 */
import { TenureError } from '../../errors.ts'
import type { LeaseRecord, Metadata } from '../../lease-store.ts'
import type { Current, Draft } from '../../stores/rules.ts'
import { microTime } from '@tenure/internal/micro-time'
import { isObject } from '@tenure/internal/objects'

/** A Lease as the API server gave it. A write over it keeps what is not understood of it. */
export interface LeaseObject {
  readonly metadata: Record<string, unknown> & { readonly resourceVersion: string }
  readonly annotations: Record<string, unknown>
  readonly spec: Record<string, unknown>
}

/** What is known of one election: its Lease, decoded, or that there is none. */
export interface FoundLease extends Current {
  readonly lease: LeaseObject | undefined
}

/** A Lease that is there. */
export interface DecodedLease extends FoundLease {
  readonly record: LeaseRecord
  readonly lease: LeaseObject
}

/** There is no Lease. */
export const noLease: FoundLease = { record: undefined, highestTerm: 0, remainingMs: undefined, lease: undefined }

/** Where a Lease is. */
export interface LeaseKey {
  readonly namespace: string
  readonly name: string
  /** The election's name, which a Lease may not be able to have. */
  readonly election: string
}

const grantAnnotation = 'tenure.dev/grant'
const carryAnnotation = 'tenure.dev/carry'
const electionAnnotation = 'tenure.dev/election'
const lastTerm = 2 ** 31 - 1
/** A renewTime further ahead than this is a mistake of another program, not the sum of our own steps. */
const farAheadMs = 3_600_000

/** Checks an answer or event. Throws if it is not a Lease: then nothing is known. */
export function asLease(value: unknown): LeaseObject {
  if (isObject(value) && value['kind'] === 'Lease' && isObject(value['metadata'])) {
    const { metadata, spec = {} } = value
    const { resourceVersion, annotations } = metadata
    if (typeof resourceVersion === 'string' && resourceVersion !== '' && isObject(spec)) {
      return { metadata: { ...metadata, resourceVersion }, annotations: isObject(annotations) ? annotations : {}, spec }
    }
  }
  throw new TenureError('RECORD_INVALID', 'The API server answered with something that is not a Lease.')
}

/**
 * Decodes an answer or event, once: the next write takes what it needs from the result. Without `election`, as in a
 * list, the Lease names its election. A Lease does not show whether it has run out: that is observed.
 */
export function decodeLease(value: unknown, election?: string): DecodedLease {
  const lease = asLease(value)
  const { annotations, metadata } = lease
  const grant = grantOf(lease)
  const name = election ?? (asText(annotations[electionAnnotation]) || asText(metadata['name']))
  const record = recordOf(name, lease, grant)
  // A lower term that was written into the spec since, as by client-go's late release, has not undone ours.
  return { record, highestTerm: Math.max(record.term, grant?.term ?? 0), remainingMs: undefined, lease }
}

function recordOf(
  election: string,
  { metadata, annotations, spec }: LeaseObject,
  grant: GrantAnnotation | undefined,
): LeaseRecord {
  const term = spec['leaseTransitions'] ?? 0
  const holder = spec['holderIdentity'] ?? ''
  // A holder that is not understood is a holder: the Lease is not free.
  if (!isTerm(term) || typeof holder !== 'string') {
    const found = JSON.stringify({ holderIdentity: holder, leaseTransitions: term })
    throw new TenureError('RECORD_INVALID', `The Lease of "${election}" is not understood: ${found}`)
  }
  const seconds = spec['leaseDurationSeconds']
  // client-go's updates leave our annotations in place, so they count only for the grant that the spec describes.
  const own = grant?.term === term && grant.holder === holder ? grant : undefined
  const last = holder === '' && grant && grant.term >= term ? grant : undefined
  // The Lease has no holder, although the last grant was not given back: client-go's late release wipes what its
  // successor wrote, and people edit Leases. The grant goes on until it has run out, or until its holder's next renewal
  // mends the Lease.
  const wiped = last !== undefined && !last.released
  return {
    election,
    holder: (own ?? last)?.holder ?? holder,
    attempt: (own ?? last)?.attempt ?? '',
    term: last?.term ?? term,
    leaseDurationMs: wiped ? last.leaseDurationMs : typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : 0,
    acquiredAt: unixMs(spec['acquireTime']),
    renewedAt: unixMs(spec['renewTime']),
    released: holder === '' && !wiped,
    metadata: (own ?? last)?.metadata ?? {},
    carry: asText(annotations[carryAnnotation]),
    version: metadata.resourceVersion,
    mark: (own ?? last)?.mark,
  }
}

/** The Lease that says what a record does, for a write over `before` and over nothing else. */
export function encodeLease(key: LeaseKey, draft: Draft, before: FoundLease): object {
  if (draft.term > lastTerm) {
    throw new TenureError(
      'TERM_EXHAUSTED',
      `The Lease "${key.namespace}/${key.name}" has used its last term: leaseTransitions ends at ${lastTerm}.`,
    )
  }
  const { holder, attempt, term, metadata } = draft
  const { lease } = before
  // Up, never down: others must not think the lease shorter than its holder does.
  const seconds = Math.ceil(draft.leaseDurationMs / 1000)
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      ...lease?.metadata,
      name: key.name,
      namespace: key.namespace,
      annotations: {
        ...lease?.annotations,
        [grantAnnotation]: JSON.stringify({
          holder,
          term,
          attempt,
          leaseDurationMs: seconds * 1000,
          released: draft.released,
          metadata,
          mark: draft.mark,
        }),
        ...(draft.carry !== '' || lease ? { [carryAnnotation]: draft.carry } : {}),
        ...(key.name !== key.election && { [electionAnnotation]: key.election }),
      },
    },
    spec: {
      ...lease?.spec,
      holderIdentity: draft.released ? undefined : holder,
      // A Lease without a duration can be released, but not with a duration of zero: the API server refuses that.
      leaseDurationSeconds: seconds > 0 ? seconds : undefined,
      acquireTime: microTime(draft.acquiredAt),
      renewTime: microTime(draft.released ? draft.renewedAt : renewTimeMs(draft.renewedAt, before.record?.renewedAt)),
      leaseTransitions: term,
    },
  }
}

/**
 * client-go compares renewTime in whole seconds, and counts a Lease that does not change as abandoned. So each write must
 * move it by at least one second.
 */
function renewTimeMs(nowMs: number, beforeMs = 0): number {
  const next = beforeMs + 1000
  return next - nowMs > farAheadMs ? nowMs : Math.max(nowMs, next)
}

/** What Tenure keeps of its grant beside the spec. */
interface GrantAnnotation {
  readonly holder: string
  readonly term: number
  readonly attempt: string
  readonly leaseDurationMs: number
  readonly released: boolean
  readonly metadata: Metadata
  readonly mark: string | undefined
}

function grantOf({ annotations }: LeaseObject): GrantAnnotation | undefined {
  try {
    const grant: unknown = JSON.parse(asText(annotations[grantAnnotation]))
    if (!isObject(grant)) return undefined
    const { holder, term, attempt, leaseDurationMs, released, metadata: shown, mark } = grant
    if (typeof holder !== 'string' || typeof attempt !== 'string' || !isTerm(term)) return undefined
    return {
      holder,
      term,
      attempt,
      leaseDurationMs: typeof leaseDurationMs === 'number' && leaseDurationMs > 0 ? leaseDurationMs : 0,
      released: released === true,
      metadata: isObject(shown) ? (shown as Metadata) : {},
      mark: typeof mark === 'string' ? mark : undefined,
    }
  } catch {
    return undefined
  }
}

function isTerm(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= lastTerm
}

/** Empty if it is not a text. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function unixMs(time: unknown): number {
  const ms = Date.parse(asText(time))
  return Number.isFinite(ms) ? ms : 0
}
