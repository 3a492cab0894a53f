/** The rules that a model state may break, and counts of what occurred over all transitions. */
import {
  beliefEndsAtMs,
  believes,
  clusterName,
  identityOf,
  type SpecOnlyFault,
  type Scene,
  type Setup,
} from './scene.ts'

/** The coverage of an exploration. */
export interface SpecOnlyCounts {
  grants: number
  handovers: number
  confirmations: number
  readonly faults: { [Kind in SpecOnlyFault]?: number }
}

export function noCounts(): SpecOnlyCounts {
  return { grants: 0, handovers: 0, confirmations: 0, faults: {} }
}

/** Returns the rule that a transition breaks, if any. */
export function violationOf(before: Scene, scene: Scene, setup: Setup): string | undefined {
  const leaders = scene.candidates.flatMap((candidate, who) => (believes(candidate, setup) ? [who] : []))
  const ghosts = scene.ghosts.filter(({ endsAtMs }) => endsAtMs > 0)
  if (leaders.length + ghosts.length > 1) {
    return `I1: ${leaders.map(identityOf).join(' and ')} believe at once${ghosts.length > 0 ? ', and so does a process that is cut off' : ''}`
  }
  for (const who of leaders) {
    const { term = 0 } = scene.candidates[who] ?? {}
    if (term < scene.believed.term) return `I3: term ${term} is believed after term ${scene.believed.term}`
    const { believed } = before
    if (term === believed.term && who !== believed.who) return `I4: two candidates believe in term ${term}`
  }
  return uncovered(scene, leaders, setup) ?? needlessEnd(before, scene, setup)
}

/**
 * I2: a candidate believes only in a lease that the store has granted, and for no longer than that lease. This cannot
 * be checked if the record was deleted.
 */
function uncovered(
  { server, candidates, ghosts }: Scene,
  leaders: readonly number[],
  setup: Setup,
): string | undefined {
  const { record, endsAtMs } = server
  if (!record) return undefined
  for (const who of leaders) {
    const candidate = candidates[who]
    const holder = `${clusterName(setup.candidates[who] ?? 0)}/${identityOf(who)}`
    const isTheirs = record.term === candidate?.term && record.holder === holder && !record.released
    if (!isTheirs)
      return `I2: ${identityOf(who)} believes in term ${candidate?.term}, but the store has granted another lease`
    if (beliefEndsAtMs(candidate, setup) > endsAtMs) return `I2: ${identityOf(who)} believes for longer than its lease`
  }
  const cut = ghosts.find((ghost) => ghost.endsAtMs > 0 && ghost.term !== record.term)
  return cut && `I2: a process that is cut off believes in term ${cut.term}, but the store has granted another lease`
}

/** I10: no candidate stops believing unless there was a fault. */
function needlessEnd(before: Scene, { candidates, budget }: Scene, setup: Setup): string | undefined {
  if (budget < setup.budget) return undefined
  const who = candidates.findIndex(({ term }, index) => term === 0 && (before.candidates[index]?.term ?? 0) > 0)
  return who < 0 ? undefined : `I10: ${identityOf(who)} no longer leads, although there was no fault`
}
