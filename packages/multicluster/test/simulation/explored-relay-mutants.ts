import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ExploredRelays } from './explored-relays.ts'

/** The limit of states within which the model checker must detect a mutant. */
export const relayMutantStates = 60_000

/** A mutant of a relay's decisions, with the options that reveal it. */
export interface ExploredRelayMutant extends Mutation {
  readonly in: ExploredRelays
}

const sights = { file: 'engine/observed-expiry.ts' } as const
const passing = { package: 'multicluster', file: 'calls/relayed-acquire.ts' } as const
const polled = { leaseTicks: 6 } as const
const watched = { leaseTicks: 6, relaysWatch: true } as const

export const exploredRelayMutants: readonly ExploredRelayMutant[] = [
  {
    ...sights,
    name: 'start the observation before the version was observed',
    find: 'const sight = before ?? { key, atMs: nowMs }',
    replace: 'const sight = before ?? { key, atMs: view?.seenAtMs ?? nowMs }',
    in: { ...polled, faults: ['crash'] },
  },
  {
    ...sights,
    name: 'observe for less than the whole lease duration',
    find: 'return seenAtMs + holdsForMs\n',
    replace: 'return seenAtMs + holdsForMs / 2\n',
    in: { ...watched, faults: ['stall'] },
  },
  {
    ...sights,
    name: 'treat a missing record as free at once',
    find: 'const holdsForMs = absentForMs ?? Math.max(ownDurationMs, raised.lastDurationMs)',
    replace: 'const holdsForMs = 0 * (absentForMs ?? ownDurationMs)',
    in: { ...polled, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'count a missing record from the first time that it was missing',
    find: 'return gone ? raised : { ...raised, view: { record, seenAtMs: nowMs, holdsForMs } }',
    replace: `const sight = firstSight(raised, absentVersion) ?? { key: absentVersion, atMs: nowMs }
    return gone
      ? raised
      : { ...raised, seen: [...raised.seen, sight], view: { record, seenAtMs: sight.atMs, holdsForMs } }`,
    in: { ...watched, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'continue to count a missing record although a candidate has led since',
    find: 'view: known.view?.record ? known.view : undefined',
    replace: 'view: known.view',
    in: { ...polled, budget: 2, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'treat the record found at the start as observed long ago',
    find: 'const sight = before ?? { key, atMs: nowMs }',
    replace: 'const sight = before ?? { key, atMs: known.highestTerm === 0 ? -Infinity : nowMs }',
    in: { ...polled, faults: ['relay-crash'] },
  },
  {
    ...passing,
    name: 'drop expiredVersion',
    find: '  return watched === undefined ? claim : { ...claim, expiredVersion: watched }',
    replace: '  const { expiredVersion: _, ...rest } = claim\n  void watched\n  return rest',
    also: [
      {
        file: 'calls/relayed-acquire.ts',
        find: '  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion',
        replace: '  const isOthers = !outcome.ok && passed === undefined',
      },
    ],
    in: { ...polled, faults: ['crash'] },
  },
  {
    ...passing,
    name: 'name the current version as expired even if it has not expired',
    find: 'const watched = expiredVersionOf(seen, nowMs)',
    replace: 'const watched = nowMs < Infinity ? seen.view?.record?.version : expiredVersionOf(seen, nowMs)',
    in: { ...watched, faults: ['stall'] },
  },
  {
    ...passing,
    name: 'retry with the version that a refusal shows',
    find: 'return isOthers && own === (outcome.record?.version ?? absentVersion) ? asked : undefined',
    replace: `const version = outcome.record?.version ?? absentVersion
  const isNew = !outcome.ok && passed.expiredVersion !== version
  return isOthers || isNew ? { ...asked, expiredVersion: version } : undefined`,
    in: { ...watched, faults: ['stall'] },
  },
]
