import type { ExploreOptions } from '../../src/simulation/explore.ts'
import type { EngineMutant } from './engine-mutants.ts'

const preference = 'engine/preference.ts'
const election = 'engine/election.ts'

/** A mutant, and the options of `explore()` that reveal it. */
export interface PreferenceMutant extends EngineMutant {
  readonly explored: ExploreOptions
}

const watched: ExploreOptions = { leaseTicks: 6 }
const polled: ExploreOptions = { ...watched, watch: false }
/** One process that must lead again as soon as its own cooldown has ended. */
const alone: ExploreOptions = { ...polled, electors: 1, priorities: ['lowest'], leaderWithinTicks: 7 }
/** One process that sees a member of a newer generation. */
const outdated: ExploreOptions = { ...alone, leaderWithinTicks: 9, newerGeneration: true }

/** Faults that are about who should lead, often. */
const often = { preference: true, present: false, faultEveryMs: 20_000 } as const

/** Mutants of the rules about who should lead. Where `in` is set, the simulator also reveals the mutant. */
export const preferenceMutants: readonly PreferenceMutant[] = [
  {
    name: 'ask a process only once whether it is eligible',
    file: preference,
    find: 'const regularMs = preference.askedAtMs + settings.retryIntervalMs',
    replace: 'const regularMs = preference.askedAtMs < -1e9 ? -Infinity : Infinity',
    in: { ...often, faults: ['ineligible'] },
    explored: { ...watched, faults: ['ineligible'] },
  },
  {
    name: 'wait for a successor without an end',
    file: preference,
    find: 'freeAtMs(view) + stepMs(settings) : -Infinity',
    replace: 'Infinity : -Infinity',
    in: { ...often, faults: ['hand-over'] },
    explored: { ...watched, faults: ['hand-over'] },
  },
  {
    name: 'apply the delay of a priority to a record that was never written',
    file: election,
    find: '  const wait = heldBack(s)\n',
    replace: `  const untilMs = s.lastReplyAtMs + 2 * s.settings.retryIntervalMs
  const isNew = !s.view && s.preference.priority !== 'normal' && s.nowMs < untilMs
  const wait = heldBack(s) ?? (isNew ? { by: 'priority' as const, untilMs } : undefined)\n`,
    explored: { ...watched, budget: 0, priorities: ['lowest', 'lowest'] },
  },
  {
    name: 'count a priority for a candidate in cooldown',
    file: preference,
    find: ': expiredAtMs, successorUntilMs(s)) + delayMs',
    replace: ': expiredAtMs, successorUntilMs(s), Reflect.get(s, "cooldownUntilMs")) + delayMs',
    explored: { ...alone, faults: ['step-down'] },
  },
  {
    name: 'contend although the process is not eligible',
    file: preference,
    find: "  if (!preference.eligible) return { by: 'ineligible'",
    replace: "  if (!preference.eligible && nowMs < -1e9) return { by: 'ineligible'",
    explored: { ...polled, faults: ['ineligible'] },
  },
  {
    name: 'step down although the process is eligible again',
    file: preference,
    find: 'ineligibleSinceMs: eligible ? undefined : ineligibleSinceMs,',
    replace: 'ineligibleSinceMs: eligible && preference.eligible ? preference.ineligibleSinceMs : ineligibleSinceMs,',
    in: { ...often, faults: ['ineligible'] },
    explored: { ...watched, faults: ['ineligible'] },
  },
  {
    name: 'count progress only from the election',
    file: preference,
    find: 'progressedAtMs: Math.max(preference.progressedAtMs, progressedAtMs),',
    replace: 'progressedAtMs: preference.progressedAtMs + 0 * progressedAtMs,',
    in: { ...often, faults: ['no-progress'] },
    explored: { ...watched, faults: ['no-progress'] },
  },
  {
    name: 'never step down as stalled',
    file: preference,
    find: 'return progressTimeoutMs === Infinity ? Infinity :',
    replace: 'return progressTimeoutMs > 0 ? Infinity :',
    in: { ...often, faults: ['no-progress'] },
    explored: { ...watched, faults: ['no-progress'] },
  },
  {
    name: 'count the delay of a priority from now instead of the release',
    file: preference,
    find: '  return Math.max(view.record?.released ? freeAtMs(view)',
    replace: '  return Math.max(view.record?.released ? s.nowMs',
    in: { ...often, electors: 2, faults: ['step-down', 'hand-over'] },
    explored: { ...watched, priorities: ['lowest', 'lowest'], faults: ['step-down'] },
  },
  {
    name: 'leave the lease to a newer generation without an end',
    file: preference,
    find: 'priorities.indexOf(priorityOf(s)) + (newerGenerationOf(s) ? 1 : 0)',
    replace: 'priorities.indexOf(priorityOf(s)) + (newerGenerationOf(s) ? Infinity : 0)',
    explored: { ...outdated, faults: ['step-down'] },
  },
  {
    name: 'count the delay of a newer generation from when it was last seen',
    file: preference,
    find: ': expiredAtMs, successorUntilMs(s)) + delayMs',
    replace: ': expiredAtMs, successorUntilMs(s), newerGenerationOf(s) ? s.nowMs : -Infinity) + delayMs',
    explored: { ...outdated, faults: ['step-down'] },
  },
  {
    name: 'step down because of a newer generation',
    file: preference,
    find: "return s.nowMs >= progressDueMs(s) ? 'stalled' : undefined",
    replace: "return s.nowMs >= progressDueMs(s) || newerGenerationOf(s) ? 'stalled' : undefined",
    explored: { ...outdated, budget: 0 },
  },
]
