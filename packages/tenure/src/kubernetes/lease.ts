/**
 * How a record of ours stands in a Lease, the object that client-go's electors use too. Holder, duration, times and term
 * are the Lease's own fields, so that both understand each other; the rest stands in annotations, which client-go leaves
 * as they are.
 */
import { TenureError } from '../errors.ts'
import { isObject } from '../http/body.ts'
import type { LeaseRecord, Metadata } from '../lease-store.ts'
import type { Current, Draft } from '../stores/rules.ts'

/** A Lease as the API server gave it. What we do not know of it is written back as it was. */
export interface LeaseObject {
  readonly metadata: Record<string, unknown> & { readonly resourceVersion: string }
  readonly spec: Record<string, unknown>
}

/** Where a Lease lies. */
export interface LeaseKey {
  readonly namespace: string
  readonly name: string
  /** The election's name, which may have been too odd for a Lease. */
  readonly election: string
}

const grantAnnotation = 'tenure.dev/grant'
const carryAnnotation = 'tenure.dev/carry'
const electionAnnotation = 'tenure.dev/election'
const lastTerm = 2 ** 31 - 1
/** A renewTime further ahead than this is somebody's mistake, not the sum of our own steps. */
const farAheadMs = 3_600_000

/** Reads an answer or event. Throws if it is no Lease: then nothing is known. */
export function asLease(value: unknown): LeaseObject {
  if (isObject(value) && value['kind'] === 'Lease' && isObject(value['metadata'])) {
    const { metadata, spec = {} } = value
    const { resourceVersion } = metadata
    if (typeof resourceVersion === 'string' && resourceVersion !== '' && isObject(spec)) {
      return { metadata: { ...metadata, resourceVersion }, spec }
    }
  }
  throw new TenureError('RECORD_INVALID', 'The API server answered with something that is not a Lease.')
}

/** What a Lease means to the rules of all stores. It cannot be judged whether it ran out: that is observed. */
export function currentOf(election: string, lease: LeaseObject | undefined): Current {
  if (!lease) return { record: undefined, highestTerm: 0, remainingMs: undefined }
  const grant = grantOf(lease)
  const record = recordOf(election, lease, grant)
  // Whoever wrote a lower term into the spec since (client-go's late release does) has not undone ours.
  return { record, highestTerm: Math.max(record.term, grant?.term ?? 0), remainingMs: undefined }
}

function recordOf(election: string, { metadata, spec }: LeaseObject, grant: Grant | undefined): LeaseRecord {
  const term = spec['leaseTransitions'] ?? 0
  const holder = spec['holderIdentity'] ?? ''
  // A holder that is not understood is somebody: the Lease is not free.
  if (!isTerm(term) || typeof holder !== 'string') {
    const found = JSON.stringify({ holderIdentity: holder, leaseTransitions: term })
    throw new TenureError('RECORD_INVALID', `The Lease of "${election}" is not understood: ${found}`)
  }
  const seconds = spec['leaseDurationSeconds']
  // client-go's updates leave our annotations in place, so they count only for the grant that the spec tells of.
  const own = grant?.term === term && grant.holder === holder ? grant : undefined
  const last = holder === '' && grant && grant.term >= term ? grant : undefined
  // Nobody holds it, and whoever was granted it has not given it back: client-go's late release wipes what its successor
  // wrote, and hands edit Leases. The grant goes on until it has run out, or its holder's next renewal mends the Lease.
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
    carry: textOf(annotationsOf(metadata)[carryAnnotation]),
    version: metadata.resourceVersion,
  }
}

/** The Lease that says what a record does, for a write over `before` and over nothing else. */
export function leaseOf(key: LeaseKey, draft: Draft, before: LeaseObject | undefined): object {
  if (draft.term > lastTerm) {
    throw new TenureError(
      'TERM_EXHAUSTED',
      `The Lease "${key.namespace}/${key.name}" has used its last term: leaseTransitions ends at ${lastTerm}.`,
    )
  }
  const { holder, attempt, term, metadata } = draft
  // Up, never down: others must not think the lease shorter than its holder does.
  const seconds = Math.ceil(draft.leaseDurationMs / 1000)
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      ...before?.metadata,
      name: key.name,
      namespace: key.namespace,
      annotations: {
        ...annotationsOf(before?.metadata),
        [grantAnnotation]: JSON.stringify({
          holder,
          term,
          attempt,
          leaseDurationMs: seconds * 1000,
          released: draft.released,
          metadata,
        }),
        ...(draft.carry !== '' || before ? { [carryAnnotation]: draft.carry } : {}),
        ...(key.name !== key.election && { [electionAnnotation]: key.election }),
      },
    },
    spec: {
      ...before?.spec,
      holderIdentity: draft.released ? undefined : holder,
      // A Lease without a duration can be released, but not with a duration of zero: the API server refuses that.
      leaseDurationSeconds: seconds > 0 ? seconds : undefined,
      acquireTime: microTime(draft.acquiredAt),
      renewTime: microTime(draft.released ? draft.renewedAt : renewTimeMs(draft.renewedAt, before)),
      leaseTransitions: term,
    },
  }
}

/**
 * client-go compares renewTime in whole seconds and takes a Lease for abandoned in which it sees no change, so each write
 * must move it by one at least.
 */
function renewTimeMs(nowMs: number, before: LeaseObject | undefined): number {
  const next = unixMs(before?.spec['renewTime']) + 1000
  return next - nowMs > farAheadMs ? nowMs : Math.max(nowMs, next)
}

interface Grant {
  readonly holder: string
  readonly term: number
  readonly attempt: string
  readonly leaseDurationMs: number
  readonly released: boolean
  readonly metadata: Metadata
}

function grantOf({ metadata }: LeaseObject): Grant | undefined {
  try {
    const grant: unknown = JSON.parse(textOf(annotationsOf(metadata)[grantAnnotation]))
    if (!isObject(grant)) return undefined
    const { holder, term, attempt, leaseDurationMs, released, metadata: told } = grant
    if (typeof holder !== 'string' || typeof attempt !== 'string' || !isTerm(term)) return undefined
    return {
      holder,
      term,
      attempt,
      leaseDurationMs: typeof leaseDurationMs === 'number' ? leaseDurationMs : 0,
      released: released === true,
      metadata: isObject(told) ? (told as Metadata) : {},
    }
  } catch {
    return undefined
  }
}

function isTerm(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= lastTerm
}

function annotationsOf(metadata: Record<string, unknown> | undefined): Record<string, unknown> {
  return isObject(metadata?.['annotations']) ? metadata['annotations'] : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function unixMs(time: unknown): number {
  const ms = Date.parse(textOf(time))
  return Number.isFinite(ms) ? ms : 0
}

/** The API server wants six digits after the second. */
function microTime(unixTimeMs: number): string {
  return new Date(unixTimeMs).toISOString().replace('Z', '000Z')
}
