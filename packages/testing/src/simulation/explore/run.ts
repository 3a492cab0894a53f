/** Explores a setup and reports the result. */
import { invalidOption, systemClock } from 'tenure/internal'
import { noCounts, type ExploredCounts } from './checker.ts'
import { Encoding } from './encoding.ts'
import { leaseDurationMs, type Setup } from './model-state.ts'
import { search, type SearchLimits } from './search.ts'
import { electorsWorld, expand } from './transitions.ts'

/** A violated rule, and the shortest trace that leads to it. */
export interface ExploredViolation {
  /** The rule and the event that violated it. */
  readonly what: string
  /** The index of each step that was taken. `retrace` describes them in words. */
  readonly trace: readonly number[]
  /** The steps in words. */
  readonly story: string
}

/** The result. A test asserts `ok` and `complete`, because an incomplete exploration proves little. */
export interface ExploreReport {
  /** Whether no rule was violated in the explored states. */
  readonly ok: boolean
  /** Whether every state within the bounds was reached. */
  readonly complete: boolean
  readonly states: number
  readonly transitions: number
  readonly counts: ExploredCounts
  readonly violation?: ExploredViolation | undefined
  /** The whole report as text. */
  toString(): string
}

/** Explores every state that can follow with at most `budget` faults. */
export async function exploreSetup(setup: Setup, budget: number, bounds: SearchLimits): Promise<ExploreReport> {
  const counts = noCounts()
  const found = await search(electorsWorld(setup, budget, counts), bounds, systemClock)
  const violation = found.violation && { ...found.violation, story: retraceSetup(setup, budget, found.violation.trace) }
  const { complete, states, transitions, bound } = found
  const report = { ok: violation === undefined, complete, states, transitions, counts, violation }
  return { ...report, toString: () => inWords(report, bound && `${bounds[bound]} ${bound}`) }
}

/** Replays the trace of a violation and describes each step in words. */
export function retraceSetup(setup: Setup, budget: number, trace: readonly number[]): string {
  const encoding = new Encoding(setup)
  const lines: string[] = []
  let scene = electorsWorld(setup, budget, noCounts()).first
  let tick = 0
  for (const [step, wanted] of trace.entries()) {
    let isFound = false
    let told: [string, string][] = []
    expand(
      scene,
      setup,
      noCounts(),
      (next, ticks, course, number, move) => {
        if (number === wanted) {
          isFound = true
          const at = `${String(tick).padStart(4)}  `
          if (move.ticks === 0) lines.push(`${at}${move.who} ${move.what()}`)
          lines.push(...told.map(([who, what]) => `      ${who} ${what}`))
          if (course.violation) lines.push(`      *** ${course.violation}`)
          tick += ticks
          scene = encoding.read(encoding.write(next, ticks).slice(), 0)
          return false
        }
        told = []
        return true
      },
      (who, what) => told.push([who, what]),
    )
    if (!isFound) throw invalidOption('trace', trace, `step ${step + 1} does not exist with these options`)
  }
  return `tick  (a lease has ${leaseDurationMs / setup.tickMs})\n${lines.join('\n')}`
}

function inWords(
  { complete, states, transitions, counts, violation }: Omit<ExploreReport, 'toString'>,
  bound: string | undefined,
): string {
  const { faults, ...rest } = counts
  const size = `${states} states, ${transitions} transitions`
  const seen = `seen: ${JSON.stringify(rest)}, faults: ${JSON.stringify(faults)}`
  if (violation)
    return `violates ${violation.what}\n(after ${size}; ${seen})\n\nThe shortest trace:\n${violation.story}`
  return `${complete ? 'complete' : `NOT complete: the limit of ${bound} was reached`}, without a violation: ${size}; ${seen}`
}
