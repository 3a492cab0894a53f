/** The store of the model: the real rules of stores on one group and its seats. */
import { absentVersion, type LeaseRecord } from '../../../src/engine/lease-store.ts'
import { judgeAcquire, judgeRelease, judgeRenew, type Current, type Verdict } from '../../../src/store-kit/rules.ts'
import {
  withAt,
  type ModelAnswer,
  type ModelCall,
  type ModelElection,
  type ModelRecord,
  type ShardScene,
  type ShardSetup,
} from './scene.ts'

const holder = 'h'

/** Carries out a call, and returns the answer. */
export function apply(
  scene: ShardScene,
  call: ModelCall,
  setup: ShardSetup,
): { readonly scene: ShardScene; readonly answer: ModelAnswer } {
  const isGroup = call.verb === 'read' || call.verb === 'take-group' || call.verb === 'write'
  const election = isGroup ? scene.group : (scene.seats[call.seat] as ModelElection)
  if (call.verb === 'read' || call.verb === 'read-seat')
    return { scene, answer: { ok: true, record: election.record ?? 0 } }
  const verdict = judge(election, call, setup)
  if ('answer' in verdict) {
    const { ok } = verdict.answer
    return { scene, answer: { ok, record: election.record ?? 0 } }
  }
  const names = scene.names + 1
  const { attempt, term, released, metadata, checkpoint } = verdict.write
  const record: ModelRecord = {
    attempt,
    term,
    released,
    isCleaning: metadata['cleaning'] === true,
    checkpoint: (checkpoint || 0) as unknown as ModelRecord['checkpoint'],
    version: `#${names}`,
  }
  const after: ModelElection = {
    record,
    highestTerm: Math.max(election.highestTerm, term),
    ageTicks: 0,
    isByHand: false,
  }
  const next = isGroup
    ? { ...scene, names, group: after }
    : { ...scene, names, seats: withAt(scene.seats, call.seat, after) }
  return { scene: next, answer: { ok: true, record } }
}

function judge(
  election: ModelElection,
  call: Exclude<ModelCall, { verb: 'read' | 'read-seat' }>,
  { leaseTicks }: ShardSetup,
): Verdict {
  const { record, highestTerm, ageTicks, isByHand } = election
  const current: Current = { record: record && fullRecord(record, leaseTicks), highestTerm, remainingMs: undefined }
  const common = { election: 'e', holder, attempt: call.attempt, leaseDurationMs: leaseTicks }
  if ('version' in call) {
    const claim = { ...common, term: call.term, version: call.version }
    if (!('report' in call) && !('assignment' in call)) return judgeRelease(current, claim)
    const checkpoint = ('report' in call ? call.report : call.assignment) as unknown as string | 0
    return judgeRenew(current, checkpoint === 0 ? claim : { ...claim, checkpoint }, 0)
  }
  if (isByHand && ageTicks < leaseTicks) return { answer: { ok: false, highestTerm } }
  const metadata = call.verb === 'clean-seat' ? { cleaning: true } : {}
  const expired = call.expired === 0 ? {} : { expiredVersion: call.expired === 'absent' ? absentVersion : call.expired }
  return judgeAcquire(current, { ...common, afterTerm: call.afterTerm, metadata, ...expired }, 0)
}

function fullRecord(
  { attempt, term, released, isCleaning, checkpoint, version }: ModelRecord,
  leaseTicks: number,
): LeaseRecord {
  return {
    election: 'e',
    holder,
    attempt,
    term,
    leaseDurationMs: leaseTicks,
    acquiredAt: 0,
    renewedAt: 0,
    released,
    metadata: isCleaning ? { cleaning: true } : {},
    checkpoint: checkpoint as unknown as string,
    version,
  }
}

/**
 * Returns the claim of the best observer, or undefined if nothing can be granted: it has seen every version from the
 * moment at which it was written. Where terms are forgotten, a candidate that was just started claims a missing record
 * at once.
 */
export function claimFor(
  { record, highestTerm, ageTicks, isByHand }: ModelElection,
  leastTerm: number,
  { leaseTicks }: ShardSetup,
) {
  const isOld = ageTicks >= leaseTicks
  if (isByHand && !isOld) return undefined
  if (record?.released) return { afterTerm: Math.max(record.term, leastTerm), expired: 0 as const }
  if (record) return isOld ? { afterTerm: Math.max(record.term, leastTerm), expired: record.version } : undefined
  const afterTerm = Math.max(highestTerm, leastTerm)
  if (afterTerm === 0) return { afterTerm, expired: 0 as const }
  return isOld ? { afterTerm, expired: 'absent' } : undefined
}
