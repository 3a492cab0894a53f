import type { Mutation } from '../../../../../test/mutants/mutant.ts'
import { wideTimings, type DocumentOptions } from './index.ts'

/** A planted mistake in how heartbeats of the document are served, and the circumstances in which it must be found. */
export interface DocumentMutant extends Mutation {
  readonly in: Omit<DocumentOptions, 'states'>
}

/** How many states may be known before a mutant must have been found. */
export const documentMutantStates = 3_000

const document = { package: 'multicluster', file: 'spec-only-candidate.ts' } as const
const heartbeats = { package: 'multicluster', file: 'spec-only-heartbeats.ts' } as const
/** Candidates that wait for a confirmation for longer than client-go does. */
const patient = { waitTicks: 8 } as const

export const documentMutants: readonly DocumentMutant[] = [
  {
    ...document,
    name: 'take a lease of one duration for those who count from the confirmation',
    find: 'const leaseDurationMs = 2 * heartbeat.leaseDurationMs',
    replace: 'const { leaseDurationMs } = heartbeat',
    in: { faults: ['stall'] },
  },
  {
    ...document,
    name: 'judge "theirs" by name',
    find: 'return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)',
    replace: 'void attempt, uid\n  return isHeldIn(cluster, holder)',
    in: { faults: ['replaced'] },
  },
  {
    ...heartbeats,
    name: 'confirm however late it is',
    find: 'if (this.confirmation && this.leftMs(now) <= 0) {',
    replace: 'if (this.confirmation && this.leftMs(now) === -Infinity) {',
    in: { ...patient, faults: ['relay-stall'] },
  },
  {
    ...document,
    name: 'count from the answer',
    find: ": { result: 'held', term: outcome.record.term, sentAtMs, sentAtBootMs }",
    replace: `: { result: 'held', term: outcome.record.term, sentAtMs: at.nowMs, sentAtBootMs: at.bootMs }
    void sentAtMs, sentAtBootMs`,
    in: { ...wideTimings, faults: ['late'] },
  },
  {
    ...heartbeats,
    name: 'not count sleep',
    find: 'Math.max(nowMs - sentAtMs, bootMs - sentAtBootMs)',
    replace: 'Math.max(nowMs - sentAtMs, 0 * (bootMs - sentAtBootMs))',
    in: { ...patient, faults: ['relay-sleep'] },
  },
  {
    ...document,
    name: 'ask again without a read',
    find: 'const readFirst = tries > 0 || !isFirst || !seen.sight',
    replace: 'void tries\n  const readFirst = !isFirst || !seen.sight',
    in: { ...wideTimings, faults: ['late'] },
  },
  {
    ...document,
    name: 'give back what another cluster holds',
    find: 'record && !record.released && isOfResource(record, place) && record.version',
    replace: 'record && !record.released && record.version',
    in: { budget: 2, faults: ['stop', 'unheard'] },
  },
  {
    ...document,
    name: 'name the version that is there, run out or not',
    find: 'const expiredVersion = place.ownClock ? undefined : expiredVersionOf(seen, nowMs)',
    replace: 'const expiredVersion = place.ownClock || nowMs === Infinity ? undefined : seen.sight?.version',
    in: { budget: 0, faults: [] },
  },
  {
    package: 'multicluster',
    file: 'status.ts',
    name: 'confirm by name, whatever was granted',
    find: `return isConfirmed === (heard.term !== undefined) && (!isConfirmed || term === heard.term)
    ? heard.generation
    : undefined`,
    replace: 'void isConfirmed, term\n  return heard.generation',
    in: { faults: ['replaced'] },
  },
]
