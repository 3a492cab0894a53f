import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ExploredRelays } from './explored-relays.ts'

/** How many states the exploration may look at before it must have found a mutant. */
export const relayMutantStates = 60_000

/** A planted mistake in what a relay decides, and in which circumstances it must be found. */
export interface ExploredRelayMutant extends Mutation {
  readonly in: ExploredRelays
}

const sights = { package: 'multicluster', file: 'sights.ts' } as const
const passing = { package: 'multicluster', file: 'passing-on.ts' } as const
const polled = { leaseTicks: 6 } as const
const watched = { leaseTicks: 6, relaysWatch: true } as const

export const exploredRelayMutants: readonly ExploredRelayMutant[] = [
  {
    ...sights,
    name: 'begin the observation before the version was seen',
    find: 'seenAtMs: before?.seenAtMs ?? nowMs,',
    replace: 'seenAtMs: before?.seenAtMs ?? sight?.seenAtMs ?? nowMs,',
    in: { ...polled, faults: ['crash'] },
  },
  {
    ...sights,
    name: 'watch for less than the whole duration',
    find: 'Math.max(0, sight.seenAtMs + sight.holdsForMs - nowMs)',
    replace: 'Math.max(0, sight.seenAtMs + sight.holdsForMs / 2 - nowMs)',
    in: { ...watched, faults: ['stall'] },
  },
  {
    ...sights,
    name: 'take a vanished record for free at once',
    find: ': Math.max(absentForMs, lastDurationMs),',
    replace: ': 0 * Math.max(absentForMs, lastDurationMs),',
    in: { ...polled, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'count a record that vanished from the first time that there was none',
    find: 'past: record && !before ?',
    replace: 'past: !before ?',
    in: { ...watched, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'go on counting a missing record although somebody has led since',
    find: 'const sight = !record && !seen.sight?.record && highestTerm > seen.highestTerm ? undefined : seen.sight',
    replace: 'const { sight } = seen',
    in: { ...polled, budget: 2, faults: ['deleted-record'] },
  },
  {
    ...sights,
    name: 'take what it finds at its start for watched long ago',
    find: 'seenAtMs: before?.seenAtMs ?? nowMs,',
    replace: 'seenAtMs: before?.seenAtMs ?? (seen.highestTerm === 0 ? -Infinity : nowMs),',
    in: { ...polled, faults: ['relay-crash'] },
  },
  {
    ...passing,
    name: 'drop expiredVersion',
    find: '  return watched === undefined ? claim : { ...claim, expiredVersion: watched }',
    replace: '  const { expiredVersion: _, ...rest } = claim\n  void watched\n  return rest',
    also: [
      {
        file: 'passing-on.ts',
        find: '  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion',
        replace: '  const isOthers = !outcome.ok && passed === undefined',
      },
    ],
    in: { ...polled, faults: ['crash'] },
  },
  {
    ...passing,
    name: 'name the version that is there, run out or not',
    find: 'const watched = expiredVersionOf(seen, nowMs)',
    replace: 'const watched = nowMs < Infinity ? seen.sight?.version : expiredVersionOf(seen, nowMs)',
    in: { ...watched, faults: ['stall'] },
  },
  {
    ...passing,
    name: 'ask again with the version that a refusal shows',
    find: 'return isOthers && own === (outcome.record?.version ?? absentVersion) ? asked : undefined',
    replace: `const version = outcome.record?.version ?? absentVersion
  const isNew = !outcome.ok && passed.expiredVersion !== version
  return isOthers || isNew ? { ...asked, expiredVersion: version } : undefined`,
    in: { ...watched, faults: ['stall'] },
  },
]
