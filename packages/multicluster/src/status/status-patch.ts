/** Computes what to write into a status: a pure function of the current resource and a relay's knowledge. */
import { microTime } from '@tenure/internal/micro-time'
import type { LeaseRecord } from 'tenure'
import {
  answerPatch,
  displayedHolderOf,
  recordPatch,
  relayedRecord,
  type MultiClusterAnswer,
  type MultiClusterLease,
  type MultiClusterLeaseStatus,
  type Patch,
  type StatusPatch,
} from 'tenure/internal/multicluster'
import { conditionsAfter, type Assessments } from './conditions.ts'

/** A relay's knowledge about one resource. */
export interface RelayState {
  readonly cluster: string
  /** Answers by key: results of global calls, and errors of requests that can never succeed. */
  readonly answers: ReadonlyMap<string, MultiClusterAnswer>
  /** The global record as last observed. Null if it was observed to be missing. */
  readonly record: LeaseRecord | null | undefined
  /** Whether the record expired by this relay's observation and a later read still found it. */
  readonly hasExpired: boolean
  /** Keys whose request has not changed for a long time. */
  readonly silent: ReadonlySet<string>
  /** The heartbeat of a spec-only candidate that a global call has answered. */
  readonly heard: HeartbeatOutcome | undefined
  /**
   * The kind of candidates that use the resource. `requests` if both kinds do, because spec-only candidates are not
   * served in that case.
   */
  readonly candidates: 'requests' | 'spec-only' | 'none'
  /** Whether the heartbeat belongs to a candidate without requests. */
  readonly isMixed: boolean
  readonly assessments: Assessments
  readonly wallMs: number
}

/** The outcome of a heartbeat: a global call was sent after the heartbeat was observed, and answered. */
export interface HeartbeatOutcome {
  readonly generation: number
  /** The identity of the candidate. Empty if it released the lease. */
  readonly identity: string
  /** The term that the candidate holds now. Undefined if it holds none. */
  readonly term: number | undefined
}

/** Returns the difference between the current status and the correct one. Undefined if there is none. */
export function statusPatchFor(resource: MultiClusterLease, knowledge: RelayState): StatusPatch | undefined {
  const { status, generation } = resource
  const answers = answersAfter(resource, knowledge)
  // Removing an abandoned slot does not count as an answer, because no candidate behind that slot needs to learn of a
  // renewal.
  const isAnswered = Object.values(answers ?? {}).some((answer) => answer !== null)
  const shown = shownAfter(status, knowledge, isAnswered)
  const observedGeneration = generationAfter(resource, knowledge, shown)
  const assessments = { ...knowledge.assessments, ...leadingAssessment(shown, status, knowledge) }
  const conditions = conditionsAfter(status.conditions ?? [], assessments, { generation, wallMs: knowledge.wallMs })
  const silent = silentAfter(resource, knowledge)
  const patch: StatusPatch = {
    ...shown,
    ...(answers && { answers }),
    ...(observedGeneration !== undefined && { observedGeneration }),
    ...(conditions && { conditions }),
    ...(silent && { silent }),
  }
  return Object.keys(patch).length > 0 ? patch : undefined
}

/**
 * Returns the changes to the answers. It adds only answers to current requests, matched by id, and removes answers
 * whose keys are gone or silent.
 */
function answersAfter({ spec, status }: MultiClusterLease, { answers, silent }: RelayState): StatusPatch['answers'] {
  // No prototype, because a candidate may choose a key such as "constructor".
  const changes = Object.create(null) as Record<string, Patch<MultiClusterAnswer> | null>
  for (const [key, answer] of answers) {
    const isAsked = spec.requests[key]?.id === answer.id && !silent.has(key)
    if (isAsked && status.answers[key]?.id !== answer.id) changes[key] = answerPatch(answer)
  }
  for (const key of Object.keys(status.answers)) {
    if (!Object.hasOwn(spec.requests, key) || silent.has(key)) changes[key] = null
  }
  return Object.keys(changes).length > 0 ? changes : undefined
}

type LeaderFields = Pick<
  StatusPatch,
  | 'leader'
  | 'globalHolderIdentity'
  | 'cluster'
  | 'term'
  | 'acquireTime'
  | 'renewTime'
  | 'leaseDurationSeconds'
  | 'record'
>

/**
 * Returns the leader. A renewal by another cluster does not cause a write by itself. Only changes of leadership and
 * releases do. A renewal is included when an answer is written anyway.
 */
function shownAfter(status: MultiClusterLeaseStatus, knowledge: RelayState, isWritten: boolean): LeaderFields {
  const { cluster, hasExpired } = knowledge
  if (knowledge.record === null) return status.record ? deletedRecord : {}
  if (!knowledge.record || isBefore(knowledge.record, status)) return {}
  const record = relayedRecord(knowledge.record, cluster)
  const old = status.record
  // Another relay may have observed this version for longer. Once it has expired for one relay, it has expired.
  const isOver = record.released || hasExpired || (status.leader === '' && old?.version === record.version)
  const leader = isOver ? '' : record.holder
  const isNews = status.term !== record.term || status.leader !== leader || old?.released !== record.released
  const isOwn = record.cluster === cluster || isWritten
  if (!isNews && !(isOwn && old?.version !== record.version)) return {}
  return {
    leader,
    globalHolderIdentity: leader,
    cluster: leader === '' ? '' : record.cluster,
    term: record.term,
    acquireTime: microTime(record.acquiredAt),
    renewTime: microTime(record.renewedAt),
    leaseDurationSeconds: Math.max(1, Math.ceil(record.leaseDurationMs / 1000)),
    record: recordPatch(record),
  }
}

/** The changes after the record was deleted. The term stays, so that no lower one can follow. */
const deletedRecord: LeaderFields = { leader: '', globalHolderIdentity: '', cluster: '', record: null }

/**
 * Whether a record is older than the status: a term never follows a higher one, and a released record stays released.
 */
function isBefore({ term, released }: LeaseRecord, status: MultiClusterLeaseStatus): boolean {
  if (term < (status.term ?? 0)) return true
  return term === status.term && status.record?.released === true && !released
}

/**
 * Returns the newest generation whose requests were all sent to the global store after the generation was observed.
 * Undefined if the status need not change.
 */
function generationAfter(resource: MultiClusterLease, knowledge: RelayState, shown: LeaderFields): number | undefined {
  const { status, generation } = resource
  const before = status.observedGeneration ?? 0
  const observed = observedOf(resource, knowledge, { ...status, ...shown })
  if (observed === undefined || observed > generation) return isUnconfirmed(status, shown, knowledge) ? 0 : undefined
  // An API server restored from a backup starts at a lower generation.
  return observed > before || before > generation ? observed : undefined
}

/**
 * A spec-only candidate may still wait for a generation that was refused. If a delayed call then grants it the lease,
 * its name next to that generation would look like a confirmation, however late it is written.
 */
function isUnconfirmed(
  status: MultiClusterLeaseStatus,
  { leader }: LeaderFields,
  { record, cluster }: RelayState,
): boolean {
  if (!leader || leader === status.leader || !status.observedGeneration) return false
  return (
    record?.attempt.startsWith('document:') === true && displayedHolderOf(record.holder, cluster).cluster === cluster
  )
}

function observedOf(
  resource: MultiClusterLease,
  knowledge: RelayState,
  { leader, term }: Pick<LeaderFields, 'leader' | 'term'>,
): number | undefined {
  const { candidates, heard } = knowledge
  if (candidates === 'requests') {
    const requests = Object.entries(resource.spec.requests)
    const isWhole = !knowledge.isMixed && requests.every(([key, { id }]) => isCarriedOut(key, id, resource, knowledge))
    return isWhole ? resource.generation : undefined
  }
  if (candidates === 'none' || !heard) return undefined
  // A spec-only candidate treats its name next to the generation as confirmation, so both must describe the same grant.
  const isConfirmed = leader === heard.identity && heard.identity !== ''
  return isConfirmed === (heard.term !== undefined) && (!isConfirmed || term === heard.term)
    ? heard.generation
    : undefined
}

function isCarriedOut(key: string, id: string, { status }: MultiClusterLease, { answers }: RelayState): boolean {
  const answer = [answers.get(key), status.answers[key]].find((one) => one?.id === id)
  return answer !== undefined && !answer.error
}

function silentAfter({ spec, status }: MultiClusterLease, { silent }: RelayState): readonly string[] | undefined {
  const after = [...silent].filter((key) => Object.hasOwn(spec.requests, key)).sort()
  const before = status.silent ?? []
  return after.length === before.length && after.every((key, index) => key === before[index]) ? undefined : after
}

function leadingAssessment(shown: LeaderFields, status: MultiClusterLeaseStatus, { cluster }: RelayState): Assessments {
  const leader = shown.leader ?? status.leader
  const of = shown.cluster ?? status.cluster
  if (leader === undefined) return {}
  if (leader === '') {
    return { Leading: { status: 'False', reason: 'NobodyLeads', message: 'Nobody holds the global lease.' } }
  }
  if (of === cluster) {
    return { Leading: { status: 'True', reason: 'LedHere', message: `"${leader}" of this cluster leads.` } }
  }
  const message = `"${leader}" leads. It is not a candidate in this cluster.`
  return { Leading: { status: 'False', reason: 'LedElsewhere', message } }
}
