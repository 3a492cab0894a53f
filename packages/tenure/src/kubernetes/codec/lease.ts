/**
 * Stores a record in a Lease, the object that client-go's electors also use. Holder, duration, times and term are the
 * Lease's own fields, so that both understand each other. The rest is in annotations, which client-go leaves unchanged.
 */
import { TenureError } from '../../common/errors.ts'
import type { LeaseRecord, Metadata } from '../../engine/lease-store.ts'
import type { Current, RecordDraft } from '../../store-kit/rules.ts'
import { isTerm } from '@tenure/internal/field-reader'
import { microTime } from '@tenure/internal/micro-time'
import { isObject } from '@tenure/internal/objects'

/** A Lease as the API server returned it. A write keeps all fields that Tenure does not understand. */
export interface LeaseObject {
  readonly metadata: Record<string, unknown> & { readonly resourceVersion: string }
  readonly annotations: Record<string, unknown>
  readonly spec: Record<string, unknown>
}

/** The known state of one election: its decoded Lease, or the absence of one. */
export interface FoundLease extends Current {
  readonly lease: LeaseObject | undefined
}

/** An existing Lease, decoded. */
export interface DecodedLease extends FoundLease {
  readonly record: LeaseRecord
  readonly lease: LeaseObject
}

/** The state of an election that has no Lease. */
export const noLease: FoundLease = { record: undefined, highestTerm: 0, remainingMs: undefined, lease: undefined }

/** Identifies a Lease. */
export interface LeaseKey {
  readonly namespace: string
  readonly name: string
  /** The election's name, which may not be a valid Lease name. */
  readonly election: string
}

const grantAnnotation = 'tenure.dev/grant'
const checkpointAnnotation = 'tenure.dev/checkpoint'
const electionAnnotation = 'tenure.dev/election'
const lastTerm = 2 ** 31 - 1
/** A renewTime further ahead than this is another program's mistake, not the sum of Tenure's own increments. */
const farAheadMs = 3_600_000

/** Checks an answer or event. Throws if it is not a Lease, because then the state is unknown. */
export function asLease(value: unknown): LeaseObject {
  if (isObject(value) && value['kind'] === 'Lease' && isObject(value['metadata'])) {
    const { metadata, spec = {} } = value
    const { resourceVersion, annotations } = metadata
    if (typeof resourceVersion === 'string' && resourceVersion !== '' && isObject(spec)) {
      return { metadata: { ...metadata, resourceVersion }, annotations: isObject(annotations) ? annotations : {}, spec }
    }
  }
  throw new TenureError('RECORD_INVALID', 'The API server did not answer with a Lease.')
}

/**
 * Decodes an answer or event once. The next write takes the fields that it needs from the result. Without `election`,
 * as in a list, the Lease itself names its election. A Lease does not show whether it has expired, because candidates
 * observe that.
 */
export function decodeLease(value: unknown, election?: string): DecodedLease {
  const lease = asLease(value)
  const { annotations, metadata } = lease
  const grant = grantOf(lease)
  const name = election ?? (asText(annotations[electionAnnotation]) || asText(metadata['name']))
  const record = recordOf(name, lease, grant)
  // A lower term that is written into the spec later, for example by a late release of client-go, does not undo
  // Tenure's term.
  return { record, highestTerm: Math.max(record.term, grant?.term ?? 0), remainingMs: undefined, lease }
}

function recordOf(
  election: string,
  { metadata, annotations, spec }: LeaseObject,
  grant: GrantAnnotation | undefined,
): LeaseRecord {
  const term = spec['leaseTransitions'] ?? 0
  const holder = spec['holderIdentity'] ?? ''
  // An invalid holder still counts as a holder: the Lease is not free.
  if (!isLeaseTerm(term) || typeof holder !== 'string') {
    const found = JSON.stringify({ holderIdentity: holder, leaseTransitions: term })
    throw new TenureError('RECORD_INVALID', `The Lease of "${election}" has invalid fields: ${found}`)
  }
  const seconds = spec['leaseDurationSeconds']
  // client-go's updates leave Tenure's annotations in place, so the annotations count only for the grant that the spec
  // describes.
  const own = grant?.term === term && grant.holder === holder ? grant : undefined
  const last = holder === '' && grant && grant.term >= term ? grant : undefined
  // The Lease has no holder although the last grant was not released: a late release of client-go erases what its
  // successor wrote, and people edit Leases. The grant continues until it expires, or until its holder's next renewal
  // repairs the Lease.
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
    checkpoint: asText(annotations[checkpointAnnotation]),
    version: metadata.resourceVersion,
    writeId: (own ?? last)?.writeId,
    // Only the release that the annotation describes hands over. client-go may have released the Lease since.
    ...(last?.released && last.successor !== undefined && { successor: last.successor }),
  }
}

/** Encodes a record as a Lease, for a write that replaces only `before`. */
export function encodeLease(key: LeaseKey, draft: RecordDraft, before: FoundLease): object {
  if (draft.term > lastTerm) {
    throw new TenureError(
      'TERM_EXHAUSTED',
      `The Lease "${key.namespace}/${key.name}" has used its last term: leaseTransitions ends at ${lastTerm}.`,
    )
  }
  const { holder, attempt, term, metadata } = draft
  const { lease } = before
  // Round up: other candidates must not consider the lease shorter than its holder does.
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
          // Not in `preferredHolder`: without its feature gate the API server drops it, and with it refuses the Lease.
          successor: draft.successor,
          writeId: draft.writeId,
        }),
        ...(draft.checkpoint !== '' || lease ? { [checkpointAnnotation]: draft.checkpoint } : {}),
        ...(key.name !== key.election && { [electionAnnotation]: key.election }),
      },
    },
    spec: {
      ...lease?.spec,
      holderIdentity: draft.released ? undefined : holder,
      // A Lease without a duration can be released, but not with a duration of zero, which the API server refuses.
      leaseDurationSeconds: seconds > 0 ? seconds : undefined,
      acquireTime: microTime(draft.acquiredAt),
      renewTime: microTime(draft.released ? draft.renewedAt : renewTimeMs(draft.renewedAt, before.record?.renewedAt)),
      leaseTransitions: term,
    },
  }
}

/**
 * client-go compares renewTime in whole seconds and treats an unchanged Lease as abandoned. So each write must advance
 * it by at least one second.
 */
function renewTimeMs(nowMs: number, beforeMs = 0): number {
  const next = beforeMs + 1000
  return next - nowMs > farAheadMs ? nowMs : Math.max(nowMs, next)
}

/** The part of a grant that Tenure keeps outside the spec. */
interface GrantAnnotation {
  readonly holder: string
  readonly term: number
  readonly attempt: string
  readonly leaseDurationMs: number
  readonly released: boolean
  readonly metadata: Metadata
  readonly successor: string | undefined
  readonly writeId: string | undefined
}

function grantOf({ annotations }: LeaseObject): GrantAnnotation | undefined {
  try {
    const grant: unknown = JSON.parse(asText(annotations[grantAnnotation]))
    if (!isObject(grant)) return undefined
    const { holder, term, attempt, leaseDurationMs, released, metadata: shown, successor, writeId } = grant
    if (typeof holder !== 'string' || typeof attempt !== 'string' || !isLeaseTerm(term)) return undefined
    return {
      holder,
      term,
      attempt,
      leaseDurationMs: typeof leaseDurationMs === 'number' && leaseDurationMs > 0 ? leaseDurationMs : 0,
      released: released === true,
      metadata: isObject(shown) ? (shown as Metadata) : {},
      successor: typeof successor === 'string' ? successor : undefined,
      writeId: typeof writeId === 'string' ? writeId : undefined,
    }
  } catch {
    return undefined
  }
}

function isLeaseTerm(value: unknown): value is number {
  return isTerm(value, 0) && value <= lastTerm
}

/** Returns an empty string if the value is not a string. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function unixMs(time: unknown): number {
  const ms = Date.parse(asText(time))
  return Number.isFinite(ms) ? ms : 0
}
