/** One relay: what the real one does around its decisions, which are the real ones. Time is 0. */
import type { LeaseRecord } from '../../../../tenure/src/engine/lease-store.ts'
import type { MultiClusterLease, MultiClusterLeaseStatus } from '../../../../tenure/src/multicluster/resource.ts'
import { globalRecord } from '../../../src/answer.ts'
import {
  afterStep,
  beginServing,
  isFreeToAsk,
  nextStep,
  pairOf,
  type Moment,
  type Place,
  type Step,
} from '../../../src/spec-only-candidate.ts'
import { drop, dueMs } from '../../../src/pending-call.ts'
import { Heartbeats } from '../../../src/spec-only-heartbeats.ts'
import { shownBy } from '../../../src/relayed-acquire.ts'
import { expiredVersionOf, withSight } from '../../../src/observed-versions.ts'
import { statusPatchFor, type RelayState } from '../../../src/status.ts'
import { clusterName, election, tickMs, type Answer, type RelaySlot, type Setup } from './scene.ts'

const now = { nowMs: 0, bootMs: 0 }

function momentOf({ seen }: RelaySlot): Moment {
  return { seen, ...now }
}

function placeOf({ resource }: RelaySlot, cluster: number, { expiry }: Setup): Place {
  return { uid: resource?.uid ?? '', cluster: clusterName(cluster), election, ownClock: expiry === 'own-clock' }
}

/** Lets the real one work on a copy, because it changes itself. */
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

/** It sees its resource as it is. */
export function see(slot: RelaySlot, resource: MultiClusterLease, cluster: number, setup: Setup): RelaySlot {
  const place = { election, cluster: clusterName(cluster) }
  const { record, term } = resource.status
  const isOther = slot.resource !== undefined && slot.resource.uid !== resource.uid
  const shows = term !== undefined || record !== undefined
  const seen = shows
    ? withSight(slot.seen, {
        record: record && globalRecord(record, place),
        by: 'event',
        nowMs: 0,
        absentForMs: setup.leaseTicks * tickMs,
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

/** Whether there is a call to be sent, first or next. */
export function isDue({ beats, flight }: RelaySlot, isFirst: boolean): boolean {
  const { current } = beats
  if (!current || flight || current.endsAtMs <= 0) return false
  return current.state === 'running' || (current.state === 'open' && dueMs(current, isFirst) <= 0)
}

/** Whether a heartbeat that was refused is to be served again. */
export function isOpenAgain(slot: RelaySlot, cluster: number, setup: Setup): boolean {
  return isFreeToAsk(placeOf(slot, cluster, setup), momentOf(slot)) && serveAgain(slot) !== slot
}

export function serveAgain(slot: RelaySlot): RelaySlot {
  let isServed = false
  const after = withBeats(slot, (beats) => (isServed = beats.serveAgain(0)))
  return isServed ? after : slot
}

/** Nobody waits for it any more. */
export function isOver({ beats: { current } }: RelaySlot): boolean {
  return current !== undefined && current.state !== 'done' && current.endsAtMs <= 0
}

/** Gives up what nobody waits for. */
export function giveUp(slot: RelaySlot): RelaySlot {
  return {
    ...withBeats(slot, ({ current }) => current && drop(current)),
    ...idle,
  }
}

/** It begins to serve, or goes on, up to the next call. Without one it is done. */
export function send(
  slot: RelaySlot,
  cluster: number,
  isFirst: boolean,
  setup: Setup,
): { slot: RelaySlot; step?: Step | undefined } {
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

/** An answer arrives: it is seen, and then it is acted upon if somebody waits for it. */
export function take(slot: RelaySlot, step: Step, answer: Answer, cluster: number, setup: Setup): RelaySlot {
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

/** It looks, of itself. */
export function look(slot: RelaySlot, found: Answer['found'], setup: Setup): RelaySlot {
  return note(slot, found, { absentForMs: setup.leaseTicks * tickMs }, setup)
}

function note(
  slot: RelaySlot,
  record: Answer['found'],
  more: { absentForMs: number; highestTerm?: number | undefined },
  { expiry }: Setup,
): RelaySlot {
  const seen = withSight(slot.seen, { record, by: 'answer', nowMs: 0, ...more })
  const gone = expiry === 'observed' && record ? expiredVersionOf(seen, 0) : undefined
  return { ...slot, seen, goneVersion: gone ?? slot.goneVersion }
}

/** A call has failed: it is tried again. */
export function fail(slot: RelaySlot): RelaySlot {
  const { current } = slot.beats
  if (current?.state !== 'running') return { ...slot, ...idle }
  const open = { ...current, state: 'open' as const, tries: current.tries + 1, tryAtMs: 0 }
  return { ...slot, ...idle, beats: { ...slot.beats, current: open } }
}

/** Whether a confirmation has to be thrown away. */
export function isStale(slot: RelaySlot): boolean {
  return slot.beats.confirmation !== undefined && discard(slot).beats.confirmation === undefined
}

export function discard(slot: RelaySlot): RelaySlot {
  return withBeats(slot, (beats) => beats.heard(now))
}

/** What it would write, over what it has seen; undefined if all is there. */
export function judge(slot: RelaySlot, cluster: number): MultiClusterLeaseStatus | undefined {
  const { resource, seen, goneVersion } = slot
  if (!resource) return undefined
  const { confirmation: heard } = slot.beats.confirmation ? discard(slot).beats : slot.beats
  const knowledge: RelayState = {
    cluster: clusterName(cluster),
    answers: new Map(),
    record: seen.sight && (seen.sight.record ?? null),
    hasRunOut: goneVersion !== undefined && goneVersion === seen.sight?.version,
    silent: new Set(),
    heard,
    candidates: heard ? 'document' : 'none',
    isMixed: false,
    assessments: {},
    wallMs: 0,
  }
  // The same is asked again and again, in many scenes.
  const key = keyOf(resource, knowledge)
  if (!judged.has(key)) judged.set(key, judgeAnew(resource, knowledge))
  return judged.get(key)
}

const judged = new Map<string, MultiClusterLeaseStatus | undefined>()

/** All that a judgement can depend on. */
function keyOf({ generation, status }: MultiClusterLease, { cluster, record, hasRunOut, heard }: RelayState): string {
  const { observedGeneration, leader, cluster: of, term, record: shown } = status
  const heardOf = heard ? `${heard.generation} ${heard.identity} ${heard.term}` : ''
  const before = `${observedGeneration} ${leader} ${of} ${term} ${shown ? textOf(shown) : ''}`
  return `${cluster} ${generation} ${before} ${hasRunOut} ${heardOf} ${record ? textOf(record) : record}`
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
