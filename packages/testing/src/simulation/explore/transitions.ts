/** All transitions of a model state, and the check that a leader follows soon. */
import { leadsAt } from 'tenure/internal'
import { withWatches } from './relay-model.ts'
import { TransitionChecker, noCounts, type ExploredCounts } from './checker.ts'
import { Encoding } from './encoding.ts'
import { faultMoves, naturalMoves, type Move } from './moves.ts'
import { firstScene, isProcess, leaseDurationMs, type ModelState, type Setup, type ModelSlot } from './model-state.ts'
import type { Violation, SearchedModel } from './search.ts'

/** One in this many liveness checks is long, even in states where nothing is about to end. */
const longShare = 16
/** If a bound is given, liveness is checked this often, because the bound is to be proven. */
const boundedShare = 4
/** The limit of steps in one liveness check. Three leases take a few hundred. */
const mostSteps = 5_000

/**
 * Electors and their store, starting from the state in which no process has started. `counts` accumulates over all
 * transitions.
 */
export function electorsWorld(setup: Setup, budget: number, counts: ExploredCounts): SearchedModel<ModelState> {
  const encoding = new Encoding(setup)
  let looks = 0
  return {
    first: withWatches(firstScene(setup.settings.length, budget, setup.between), setup),
    write: (scene, ticks) => encoding.write(scene, ticks),
    read: (bytes, offset) => encoding.read(bytes, offset),
    expand: (scene, visit) =>
      expand(scene, setup, counts, (next, ticks, { violation }) => visit(next, ticks, violation)),
    ...(setup.leaderWithinTicks !== undefined && { stuckShare: boundedShare }),
    stuck: (scene) => {
      const isLong = looks++ % longShare === 0 || scene.slots.some(isEnding)
      return stuck(scene, setup, encoding, { isLong, isUnused: scene.budget === budget })
    },
  }
}

type Visit = (next: ModelState, ticks: number, course: TransitionChecker, number: number, move: Move) => boolean

/** Visits every transition from a state, with every choice of random numbers. */
export function expand(
  scene: ModelState,
  setup: Setup,
  counts: ExploredCounts,
  visit: Visit,
  tell?: (who: string, what: string) => void,
): void {
  let number = 0
  for (const move of [...naturalMoves(scene, setup), ...faultMoves(scene, setup)]) {
    const choices: number[] = []
    do {
      const course = new TransitionChecker(counts, setup, tell)
      let drawn = 0
      const chance = () => setup.jitter[(choices[drawn++] ??= 0)] ?? 0
      const next = move.run({ setup, course, chance })
      if (move.fault) course.fault(move.fault)
      course.inspect(next)
      if (!visit(next, move.ticks, course, number++, move)) return
    } while (nextChoice(choices, setup.jitter.length))
  }
}

function nextChoice(choices: number[], options: number): boolean {
  for (let last = choices.pop(); last !== undefined; last = choices.pop()) {
    if (last + 1 < options) {
      choices.push(last + 1)
      return true
    }
  }
  return false
}

/**
 * I10: when every process runs and no more faults occur, a candidate leads within the bound, or within three leases.
 * I11: time advances. With `isLong`, also checks that by then every process that was told to stop has stopped, and that
 * no term is still ending. With `isUnused`, no fault has occurred yet. In that case, no candidate waits for a record
 * that was never written.
 */
function stuck(
  scene: ModelState,
  setup: Setup,
  encoding: Encoding,
  { isLong, isUnused }: { readonly isLong: boolean; readonly isUnused: boolean },
): Violation | undefined {
  const longMs = 3 * leaseDurationMs
  const isNew = isUnused && scene.server.highestTerm === 0 && setup.delayTicks === 0 && setup.between === undefined
  const boundMs = isNew ? setup.tickMs : (setup.leaderWithinTicks ?? longMs / setup.tickMs) * setup.tickMs
  let now = scene
  let hasLed = false
  const counts = noCounts()
  const trace: number[] = []
  for (let ticks = 0; ticks * setup.tickMs <= (hasLed ? longMs : boundMs);) {
    if (trace.length > mostSteps) return { what: 'I11: an elector spins without time passing', trace }
    hasLed ||= now.slots.some((slot) => slot.life === 'running' && isProcess(slot) && leadsAt(slot.state, 0))
    if (hasLed && !isLong) return undefined
    let violation: string | undefined
    let moved = false
    expand(now, setup, counts, (next, passed, course, number, move) => {
      // This check does not deliver late messages.
      if (move.isLate) return true
      moved = move.fault === undefined
      if (!moved) return false
      trace.push(number)
      ticks += passed
      violation = course.violation
      now = encoding.read(encoding.write(next, passed).slice(), 0)
      return false
    })
    if (violation) return { what: violation, trace }
    if (!moved) return undefined
  }
  if (!hasLed) return { what: `I10: nobody leads within ${boundMs / setup.tickMs} ticks without a fault`, trace }
  const left = now.slots.find(isEnding)
  return left && { what: `I11: ${left.state?.settings.identity} does not finish stopping or ending its term`, trace }
}

function isEnding({ toldToStop, state }: ModelSlot): boolean {
  return toldToStop || state?.phase === 'ending'
}
