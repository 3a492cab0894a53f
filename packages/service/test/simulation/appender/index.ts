/**
 * Model checking of the appender of a service on a cluster: every order of requests, answers, elections, and ends of a
 * few successive replicas, with a bounded number of faults, for unlimited time. It runs the real decisions
 * (`appender.ts`) and the real comparison of heads.
 */
import { systemClock } from '../../../../tenure/src/common/clock.ts'
import {
  search,
  type SearchResult,
  type Violation,
  type SearchedModel,
} from '../../../../testing/src/simulation/explore/search.ts'
import { Course, noCounts, type AppenderCounts } from './invariants.ts'
import { readScene, writeScene } from './encoding.ts'
import { forget } from './irrelevant-state.ts'
import { movesOf } from './moves.ts'
import { firstScene, type AppenderFault, type Scene, type Setup } from './scene.ts'

/** The options of a model checking run. */
export interface AppenderOptions {
  readonly replicas: number
  readonly groups: number
  readonly budget: number
  readonly faults: readonly AppenderFault[]
  /** Ends the search after this many states. Default: no limit. */
  readonly states?: number
}

export interface AppenderReport extends SearchResult {
  readonly counts: AppenderCounts
  /** The steps that led to the violation, described in words. */
  readonly story: readonly string[]
}

export async function exploreAppender(options: AppenderOptions): Promise<AppenderReport> {
  const { states = Infinity } = options
  const setup: Setup = { ...options, faults: new Set(options.faults) }
  const counts = noCounts()
  const found = await search(appenderWorld(setup, counts), { seconds: 3_600, states }, systemClock)
  return { ...found, counts, story: found.violation ? retrace(setup, found.violation.trace) : [] }
}

export function appenderWorld(setup: Setup, counts: AppenderCounts): SearchedModel<Scene> {
  return {
    first: firstScene(setup),
    write: writeScene,
    read: readScene,
    expand(scene, visit) {
      for (const { fault, run } of movesOf(scene, setup)) {
        const course = new Course(setup, counts)
        const after = run(course)
        if (fault) course.fault(fault)
        if (!visit(fault ? { ...after, budget: after.budget - 1 } : after, 0, course.violation)) return
      }
    },
    stuck: (scene) => stuck(scene, setup),
  }
}

/** A whole active term takes less than twenty steps, even if it must first settle a batch and replace records. */
const mostSteps = 60

/** W7: once no more faults occur and no other replica acts, the newest replica completes a write. */
function stuck(scene: Scene, setup: Setup): Violation | undefined {
  const counts = noCounts()
  const trace: number[] = []
  let now = scene
  while (trace.length < mostSteps) {
    const newest = now.activeTerms.at(-1)
    const moves = movesOf(now, setup)
    const wanted = moves.findIndex(({ helps, elects }) => (newest ? helps === newest.term : elects))
    const { done } = counts
    const course = new Course(setup, counts)
    trace.push(wanted)
    now = forget(moves[wanted]?.run(course) ?? now)
    if (course.violation) return { what: course.violation, trace }
    if (newest?.phase === 'serving' && counts.done > done) return undefined
  }
  return { what: 'W7: no write completes, although there are no more faults', trace }
}

function retrace(setup: Setup, trace: readonly number[]): string[] {
  let scene = firstScene(setup)
  return trace.map((wanted) => {
    const move = movesOf(scene, setup)[wanted]
    if (!move) return `move ${wanted} is missing`
    const course = new Course(setup, noCounts())
    const after = move.run(course)
    scene = forget(move.fault ? { ...after, budget: after.budget - 1 } : after)
    return course.violation ? `${move.what} *** ${course.violation}` : move.what
  })
}
