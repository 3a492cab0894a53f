/**
 * A relay in the model. Its decisions are made by the real code, and everything around them is modeled. The current
 * time is 0.
 */
import type { LeaseRecord } from '../../../../tenure/src/engine/lease-store.ts'
import { expiredVersionOf, observeRecord, versionOf } from '../../../../tenure/src/engine/observed-expiry.ts'
import type {
  MultiClusterLease,
  MultiClusterLeaseStatus,
} from '../../../../tenure/src/multicluster/protocol/resource-types.ts'
import { globalRecord } from '../../../../tenure/src/multicluster/protocol/answer-codec.ts'
import {
  afterStep,
  beginServing,
  isFreeToAsk,
  nextStep,
  pairOf,
  type ServingMoment,
  type CandidatePlace,
  type ServingStep,
} from '../../../src/relay/spec-only-candidate.ts'
import { cancelCall, dueMs } from '../../../src/calls/pending-call.ts'
import { Heartbeats } from '../../../src/relay/spec-only-heartbeats.ts'
import { shownBy } from '../../../src/calls/relayed-acquire.ts'
import { statusPatchFor, type RelayState } from '../../../src/status/status-patch.ts'
import { clusterName, election, tickMs, type Answer, type RelaySlot, type Setup } from './scene.ts'

const now = { nowMs: 0, bootMs: 0 }

function momentOf({ seen }: RelaySlot): ServingMoment {
  return { seen, ...now }
}

function placeOf({ resource }: RelaySlot, cluster: number, { expiry }: Setup): CandidatePlace {
  return { uid: resource?.uid ?? '', cluster: clusterName(cluster), election, ownClock: expiry === 'own-clock' }
}

/** Runs the real heartbeats on a copy, because they change their own state. */
function withBeats(slot: RelaySlot, work: (beats: Heartbeats) => void): RelaySlot {
  const beats = new Heartbeats()
  const { current, confirmation } = slot.beats
  beats.current = current && { ...current }
  beats.confirmation = confirmation
  beats.pair = slot.resource && pairOf(slot.resource.spec)
  beats.isFirstSight = slot.resource === undefined
  work(beats)
  return { ...slot, beats: { current: beats.current, confirmation: beats.confirmation } }
}

/** The relay observes the current resource. */
export function see(slot: RelaySlot, resource: MultiClusterLease, cluster: number, setup: Setup): RelaySlot {
  const place = { election, cluster: clusterName(cluster) }
  const { record, term } = resource.status
  const isOther = slot.resource !== undefined && slot.resource.uid !== resource.uid
  const shows = term !== undefined || record !== undefined
  const seen = shows
    ? observeRecord(slot.seen, {
        record: record && globalRecord(record, place),
        watched: true,
        nowMs: 0,
        ownDurationMs: setup.leaseTicks * tickMs,
        highestTerm: term,
      })
    : slot.seen
  const after = withBeats({ ...slot, seen }, (beats) => {
    if (isOther) beats.forget()
    beats.update(resource, place.cluster, false, 0)
  })
  const isServed = !isOther && slot.beats.current !== undefined && isSame(slot.beats.current, after.beats.current)
  return { ...after, resource, ...(!isServed && idle) }
}

const idle = { serving: undefined, flight: undefined } as const

type Current = RelaySlot['beats']['current']

function isSame(one: Current, other: Current): boolean {
  return one?.heartbeat.generation === other?.heartbeat.generation
}

/**
 * Returns whether the relay must send a call now. `isFirst`: whether this relay is the first to answer, so it does not
 * wait.
 */
export function isDue({ beats, flight }: RelaySlot, isFirst: boolean): boolean {
  const { current } = beats
  if (!current || flight || current.endsAtMs <= 0) return false
  return current.state === 'running' || (current.state === 'open' && dueMs(current, isFirst) <= 0)
}

/** Returns whether a refused heartbeat must be served again. */
export function isOpenAgain(slot: RelaySlot, cluster: number, setup: Setup): boolean {
  return isFreeToAsk(placeOf(slot, cluster, setup), momentOf(slot)) && serveAgain(slot) !== slot
}

export function serveAgain(slot: RelaySlot): RelaySlot {
  let isServed = false
  const after = withBeats(slot, (beats) => (isServed = beats.serveAgain(0)))
  return isServed ? after : slot
}

/** Returns whether nobody is waiting for the heartbeat anymore. */
export function isOver({ beats: { current } }: RelaySlot): boolean {
  return current !== undefined && current.state !== 'done' && current.endsAtMs <= 0
}

/** Abandons a heartbeat that nobody is waiting for. */
export function giveUp(slot: RelaySlot): RelaySlot {
  return {
    ...withBeats(slot, ({ current }) => current && cancelCall(current)),
    ...idle,
  }
}

/** Starts or continues to serve the heartbeat, up to the next call. If there is no next call, the heartbeat is done. */
export function send(
  slot: RelaySlot,
  cluster: number,
  isFirst: boolean,
  setup: Setup,
): { slot: RelaySlot; step?: ServingStep | undefined } {
  const { current } = slot.beats
  if (!current) return { slot }
  const serving = slot.serving ?? beginServing(current, isFirst, momentOf(slot))
  const running: RelaySlot = { ...slot, serving, beats: { ...slot.beats, current: { ...current, state: 'running' } } }
  const step = nextStep(serving, placeOf(slot, cluster, setup), momentOf(slot), '')
  if (!('result' in step)) return { slot: running, step }
  return {
    slot: { ...withBeats(running, (beats) => beats.current && beats.answered(beats.current, step, now)), ...idle },
  }
}

/** Handles an answer: records what it shows, and acts on it if the heartbeat is still being served. */
export function take(slot: RelaySlot, step: ServingStep, answer: Answer, cluster: number, setup: Setup): RelaySlot {
  const { serving } = slot
  const { record, ...more } = shownBy(
    answer.outcome ? { outcome: answer.outcome } : { found: answer.found },
    2 * setup.leaseTicks * tickMs,
  )
  const noted = note(slot, record, more, setup)
  if (!serving || noted.beats.current?.state !== 'running') return { ...noted, ...idle }
  const next = afterStep(serving, step, answer.outcome, placeOf(noted, cluster, setup), momentOf(noted))
  if (!('result' in next)) return { ...noted, serving: next, flight: undefined }
  return { ...withBeats(noted, (beats) => beats.current && beats.answered(beats.current, next, now)), ...idle }
}

/** The relay polls the store on its own. */
export function look(slot: RelaySlot, found: Answer['found'], setup: Setup): RelaySlot {
  return note(slot, found, { absentForMs: setup.leaseTicks * tickMs }, setup)
}

function note(
  slot: RelaySlot,
  record: Answer['found'],
  more: { absentForMs: number; highestTerm?: number | undefined },
  { expiry }: Setup,
): RelaySlot {
  const { absentForMs: ownDurationMs, highestTerm } = more
  const seen = observeRecord(slot.seen, { record, watched: false, nowMs: 0, ownDurationMs, highestTerm })
  const gone = expiry === 'observed' && record ? expiredVersionOf(seen, 0) : undefined
  return { ...slot, seen, goneVersion: gone ?? slot.goneVersion }
}

/** Handles a failed call, which is tried again. */
export function fail(slot: RelaySlot): RelaySlot {
  const { current } = slot.beats
  if (current?.state !== 'running') return { ...slot, ...idle }
  const open = { ...current, state: 'open' as const, tries: current.tries + 1, tryAtMs: 0 }
  return { ...slot, ...idle, beats: { ...slot.beats, current: open } }
}

/** Returns whether the confirmation is too late and must be discarded. */
export function isStale(slot: RelaySlot): boolean {
  return slot.beats.confirmation !== undefined && discard(slot).beats.confirmation === undefined
}

export function discard(slot: RelaySlot): RelaySlot {
  return withBeats(slot, (beats) => beats.heard(now))
}

/** Returns the status that the relay would write to replace the one that it has seen. Undefined if nothing changes. */
export function judge(slot: RelaySlot, cluster: number): MultiClusterLeaseStatus | undefined {
  const { resource, seen, goneVersion } = slot
  if (!resource) return undefined
  const { confirmation: heard } = slot.beats.confirmation ? discard(slot).beats : slot.beats
  const knowledge: RelayState = {
    cluster: clusterName(cluster),
    answers: new Map(),
    record: seen.view && (seen.view.record ?? null),
    hasExpired: seen.view !== undefined && goneVersion === versionOf(seen.view),
    silent: new Set(),
    heard,
    candidates: heard ? 'spec-only' : 'none',
    isMixed: false,
    assessments: {},
    wallMs: 0,
  }
  // Cache the result, because many states need the same one.
  const key = keyOf(resource, knowledge)
  if (!judged.has(key)) judged.set(key, judgeAnew(resource, knowledge))
  return judged.get(key)
}

const judged = new Map<string, MultiClusterLeaseStatus | undefined>()

/** Returns everything that the status depends on. */
function keyOf({ generation, status }: MultiClusterLease, { cluster, record, hasExpired, heard }: RelayState): string {
  const { observedGeneration, leader, cluster: of, term, record: shown } = status
  const heardOf = heard ? `${heard.generation} ${heard.identity} ${heard.term}` : ''
  const before = `${observedGeneration} ${leader} ${of} ${term} ${shown ? textOf(shown) : ''}`
  return `${cluster} ${generation} ${before} ${hasExpired} ${heardOf} ${record ? textOf(record) : record}`
}

function textOf(record: Pick<LeaseRecord, 'holder' | 'attempt' | 'term' | 'leaseDurationMs' | 'released' | 'version'>) {
  const { holder, attempt, term, leaseDurationMs, released, version } = record
  return `${holder} ${attempt} ${term} ${leaseDurationMs} ${released} ${version}`
}

function judgeAnew(resource: MultiClusterLease, knowledge: RelayState): MultiClusterLeaseStatus | undefined {
  const patch = statusPatchFor(resource, knowledge)
  if (!patch) return undefined
  const { observedGeneration, leader, cluster: of, term, record } = patch
  if (observedGeneration === undefined && leader === undefined && term === undefined) return undefined
  const { status } = resource
  return {
    answers: {},
    observedGeneration: observedGeneration ?? status.observedGeneration,
    leader: leader ?? status.leader,
    globalHolderIdentity: leader ?? status.leader,
    cluster: of ?? status.cluster,
    term: term ?? status.term,
    record: record === undefined ? status.record : ((record ?? undefined) as MultiClusterLeaseStatus['record']),
  }
}
