import type { Mutation } from '../../../../../test/mutants/mutant.ts'
import { wideTimings, type SpecOnlyOptions } from './index.ts'

/**
 * A mutant of the code that serves spec-only candidates, and the options with which the model checker must detect it.
 */
export interface SpecOnlyMutant extends Mutation {
  readonly in: Omit<SpecOnlyOptions, 'states'>
}

/** The limit of states within which the model checker must detect a mutant. */
export const specOnlyMutantStates = 3_000

const candidateFile = { package: 'multicluster', file: 'relay/spec-only-candidate.ts' } as const
const heartbeats = { package: 'multicluster', file: 'relay/spec-only-heartbeats.ts' } as const
/** Candidates that wait for a confirmation for longer than client-go does. */
const patient = { waitTicks: 8 } as const

export const specOnlyMutants: readonly SpecOnlyMutant[] = [
  {
    ...candidateFile,
    name: 'use the lease duration instead of twice the duration for candidates that count from the confirmation',
    find: 'const leaseDurationMs = 2 * heartbeat.leaseDurationMs',
    replace: 'const { leaseDurationMs } = heartbeat',
    in: { faults: ['stall'] },
  },
  {
    ...candidateFile,
    name: 'decide by name alone whose lease it is',
    find: 'return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)',
    replace: 'void attempt, uid\n  return isHeldIn(cluster, holder)',
    in: { faults: ['replaced'] },
  },
  {
    ...heartbeats,
    name: 'write a confirmation no matter how late it is',
    find: 'if (this.confirmation && this.leftMs(now) <= 0) {',
    replace: 'if (this.confirmation && this.leftMs(now) === -Infinity) {',
    in: { ...patient, faults: ['relay-stall'] },
  },
  {
    ...candidateFile,
    name: 'count the lease from the answer instead of the call',
    find: ": { result: 'held', term: outcome.record.term, sentAtMs, sentAtBootMs }",
    replace: `: { result: 'held', term: outcome.record.term, sentAtMs: at.nowMs, sentAtBootMs: at.bootMs }
    void sentAtMs, sentAtBootMs`,
    in: { ...wideTimings, faults: ['late'] },
  },
  {
    ...heartbeats,
    name: 'ignore the time in which the machine slept',
    find: 'Math.max(nowMs - sentAtMs, bootMs - sentAtBootMs)',
    replace: 'Math.max(nowMs - sentAtMs, 0 * (bootMs - sentAtBootMs))',
    in: { ...patient, faults: ['relay-sleep'] },
  },
  {
    ...candidateFile,
    name: 'repeat a call without reading the record first',
    find: 'const readFirst = tries > 0 || !isFirst || !seen.view',
    replace: 'void tries\n  const readFirst = !isFirst || !seen.view',
    in: { ...wideTimings, faults: ['late'] },
  },
  {
    ...candidateFile,
    name: 'release a lease that another cluster holds',
    find: 'record && !record.released && isOfResource(record, place) && record.version',
    replace: 'record && !record.released && record.version',
    in: { budget: 2, faults: ['stop', 'unheard'] },
  },
  {
    ...candidateFile,
    name: 'take over a current version even if it has not expired',
    find: 'const expiredVersion = place.ownClock ? undefined : expiredVersionOf(seen, nowMs)',
    replace: 'const expiredVersion = place.ownClock || nowMs === Infinity ? undefined : seen.view?.record?.version',
    in: { budget: 0, faults: [] },
  },
  {
    package: 'multicluster',
    file: 'status/status-patch.ts',
    name: 'confirm a heartbeat by the name of the leader without comparing the granted term',
    find: `return isConfirmed === (heard.term !== undefined) && (!isConfirmed || term === heard.term)
    ? heard.generation
    : undefined`,
    replace: 'void isConfirmed, term\n  return heard.generation',
    in: { faults: ['replaced'] },
  },
]
