/** What a scene breaks, and what was seen over all transitions. */
import {
  beliefEndsAtMs,
  believes,
  clusterName,
  identityOf,
  type DocumentFault,
  type Scene,
  type Setup,
} from './scene.ts'

/** What an exploration has seen. */
export interface DocumentCounts {
  grants: number
  handovers: number
  confirmations: number
  readonly faults: { [Kind in DocumentFault]?: number }
}

export function noCounts(): DocumentCounts {
  return { grants: 0, handovers: 0, confirmations: 0, faults: {} }
}

/** The rule that a scene breaks, after another one. */
export function violationOf(before: Scene, scene: Scene, setup: Setup): string | undefined {
  const leaders = scene.candidates.flatMap((candidate, who) => (believes(candidate, setup) ? [who] : []))
  const ghosts = scene.ghosts.filter(({ endsAtMs }) => endsAtMs > 0)
  if (leaders.length + ghosts.length > 1) {
    return `I1: ${leaders.map(identityOf).join(' and ')} believe at once${ghosts.length > 0 ? ', and one cut off' : ''}`
  }
  for (const who of leaders) {
    const { term = 0 } = scene.candidates[who] ?? {}
    if (term < scene.believed.term) return `I3: term ${term} is believed in after term ${scene.believed.term}`
    const { believed } = before
    if (term === believed.term && who !== believed.who) return `I4: term ${term} is believed in by two`
  }
  return uncovered(scene, leaders, setup) ?? needlessEnd(before, scene, setup)
}

/** I2: whoever believes, it is what the store has granted, and for no longer. A deleted record tells nothing of that. */
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
    if (!isTheirs) return `I2: ${identityOf(who)} believes in term ${candidate?.term}, and the store granted another`
    if (beliefEndsAtMs(candidate, setup) > endsAtMs) return `I2: ${identityOf(who)} believes for longer than its lease`
  }
  const cut = ghosts.find((ghost) => ghost.endsAtMs > 0 && ghost.term !== record.term)
  return cut && `I2: one that is cut off believes in term ${cut.term}, and the store granted another`
}

/** I10: nobody stops believing unless something goes wrong. */
function needlessEnd(before: Scene, { candidates, budget }: Scene, setup: Setup): string | undefined {
  if (budget < setup.budget) return undefined
  const who = candidates.findIndex(({ term }, index) => term === 0 && (before.candidates[index]?.term ?? 0) > 0)
  return who < 0 ? undefined : `I10: ${identityOf(who)} leads no longer, although nothing went wrong`
}
