/**
 * Explores spec-only candidates and the relays that serve them: every order of heartbeats, calls, writes, and time,
 * with a bounded number of faults, for unlimited time. It runs the real decisions of `spec-only-candidate.ts`,
 * `spec-only-heartbeats.ts`, `status-patch.ts`, and `observed-expiry.ts`, and the real rules of stores.
 */
import { systemClock } from '../../../../tenure/src/common/clock.ts'
import {
  search,
  type SearchResult,
  type Violation,
  type SearchedModel,
} from '../../../../testing/src/simulation/explore/search.ts'
import { noCounts, violationOf, type SpecOnlyCounts } from './invariants.ts'
import { Encoding } from './encoding.ts'
import { movesOf, type Move } from './moves.ts'
import { believes, firstScene, type SpecOnlyFault, type Scene, type Setup } from './scene.ts'

/** The options of an exploration. */
export interface SpecOnlyOptions extends Partial<Omit<Setup, 'faults'>> {
  readonly faults: readonly SpecOnlyFault[]
  /** Ends the search after this many states. Default: no limit. */
  readonly states?: number
}

export interface SpecOnlyReport extends SearchResult {
  readonly counts: SpecOnlyCounts
  /** The steps that led to the violation, described in words. */
  readonly story: readonly string[]
}

/** Timings that client-go accepts, with which a candidate believes for longer than its lease. */
export const wideTimings = { leaseTicks: 5, deadlineTicks: 4, retryTicks: 3, waitTicks: 5 } as const

/**
 * Returns a setup. By default, it has two clusters with a candidate and a relay each, and the shortest lease that has a
 * deadline and a retry.
 */
export function setupOf({ faults, ...options }: SpecOnlyOptions): Setup {
  return {
    expiry: 'observed',
    leaseTicks: 3,
    deadlineTicks: 2,
    retryTicks: 1,
    waitTicks: 2,
    waitsOn: false,
    candidates: [0, 1],
    relays: [
      { cluster: 0, isFirst: true },
      { cluster: 1, isFirst: true },
    ],
    looks: false,
    isSymmetric: options.candidates === undefined && options.relays === undefined,
    budget: 1,
    ...options,
    faults: new Set(faults),
  }
}

export async function exploreSpecOnly(options: SpecOnlyOptions): Promise<SpecOnlyReport> {
  const setup = setupOf(options)
  const counts = noCounts()
  const bounds = { seconds: 3_600, states: options.states ?? Infinity }
  const found = await search(specOnlyWorld(setup, counts), bounds, systemClock)
  return { ...found, counts, story: found.violation ? retrace(setup, found.violation.trace) : [] }
}

export function specOnlyWorld(setup: Setup, counts: SpecOnlyCounts): SearchedModel<Scene> {
  const encoding = new Encoding(setup)
  const steps = new Steps(encoding, setup)
  return {
    first: firstScene(setup),
    write: (scene, ticks) => encoding.write(scene, ticks),
    read: (bytes, offset) => encoding.read(bytes, offset),
    expand(scene, visit) {
      for (const move of steps.of(scene)) {
        const { scene: next, violation } = steps.follow(scene, move, (from, to, done) => count(counts, from, to, done))
        if (!visit(next, 0, violation)) return
      }
    },
    stuck: (scene) => stuck(scene, steps, setup),
  }
}

/** Lists all possible moves. Time advances only if nothing has to happen first. */
class Steps {
  readonly #encoding: Encoding
  readonly #setup: Setup

  constructor(encoding: Encoding, setup: Setup) {
    this.#encoding = encoding
    this.#setup = setup
  }

  of(scene: Scene): Move[] {
    const moves = movesOf(scene, this.#setup)
    if (moves.some(({ isUrgent }) => isUrgent)) return moves
    return [...moves, { what: tick, isUrgent: true, isGlobal: true, run: () => this.#later(scene) }]
  }

  #later(scene: Scene): Scene {
    const later = this.#encoding.read(this.#encoding.write(scene, 1).slice(), 0)
    return { ...later, dawn: [...later.candidates, ...later.relays].some(({ life }) => life !== 'running') }
  }

  /** Makes a move, and then every move that must follow while no other one is possible, up to the end of the tick. */
  follow(
    scene: Scene,
    move: Move,
    onMove: (from: Scene, to: Scene, move: Move, violation: string | undefined) => void,
  ): { readonly scene: Scene; readonly violation: string | undefined } {
    let [from, next] = [scene, move]
    for (;;) {
      const to = next.run()
      const violation = violationOf(from, to, this.#setup)
      onMove(from, to, next, violation)
      const moves = violation ? [] : this.of(to)
      const [only] = moves
      if (!only || moves.length > 1 || only.what === tick) return { scene: to, violation }
      from = to
      next = only
    }
  }
}

const tick = 'a tick'

function count(counts: SpecOnlyCounts, before: Scene, after: Scene, { fault }: Move): void {
  if (fault) counts.faults[fault] = (counts.faults[fault] ?? 0) + 1
  if (after.server.highestTerm > before.server.highestTerm && after.server.record) {
    counts.grants += 1
    if (before.server.record && before.server.record.holder !== after.server.record.holder) counts.handovers += 1
  }
  const isConfirmed = after.resources.some((one, at) => {
    const old = before.resources[at]
    return one?.status.observedGeneration !== old?.status.observedGeneration && one !== undefined
  })
  if (isConfirmed && after.budget === before.budget) counts.confirmations += 1
}

/** I11: once there are no more faults, some candidate leads within four global leases. */
function stuck(scene: Scene, steps: Steps, setup: Setup): Violation | undefined {
  const trace: number[] = []
  let ticks = 0
  let now = scene
  while (ticks < 8 * setup.leaseTicks) {
    if (now.candidates.some((candidate) => candidate.life === 'running' && believes(candidate, setup))) return undefined
    const moves = steps.of(now).map((move, index) => ({ ...move, index }))
    const calm = moves.filter(({ fault }) => !fault)
    // A stalled process continues first. Late calls come last, because they are not urgent.
    const move = calm.find(({ isUrgent }) => isUrgent)
    if (!move) break
    if (move.what === tick) ticks += 1
    trace.push(move.index)
    const { scene: next, violation } = steps.follow(now, move, () => undefined)
    if (violation) return { what: violation, trace }
    now = next
  }
  return { what: 'I11: nobody leads, although there are no more faults', trace }
}

function retrace(setup: Setup, trace: readonly number[]): string[] {
  const encoding = new Encoding(setup)
  const steps = new Steps(encoding, setup)
  const story: string[] = []
  let scene = firstScene(setup)
  for (const wanted of trace) {
    const move = steps.of(scene)[wanted]
    if (!move) return [...story, `move ${wanted} is missing`]
    const { scene: next } = steps.follow(scene, move, (_, __, { what }, broken) => {
      story.push(broken ? `${what} *** ${broken}` : what)
    })
    scene = encoding.read(encoding.write(next, 0).slice(), 0)
  }
  return story
}
