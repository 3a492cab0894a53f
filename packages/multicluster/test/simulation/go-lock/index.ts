/**
 * Explores candidates with the Go lock: every order of requests, answers, and time, with a bounded number of faults,
 * for unlimited time. The store uses the real rules of stores.
 */
import { systemClock } from '../../../../tenure/src/common/clock.ts'
import type { LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'
import { search, type SearchResult, type SearchedModel } from '../../../../testing/src/simulation/explore/search.ts'
import { granted, judgeAcquire, judgeRelease, judgeRenew } from '../../../../tenure/src/store-kit/rules.ts'
import { givesUp, releases, sends, takes } from './candidate.ts'
import { readScene, writeScene } from './encoding.ts'
import {
  believes,
  down,
  firstScene,
  withAt,
  type Candidate,
  type LockFault,
  type Request,
  type Scene,
  type Setup,
} from './scene.ts'

/** The options of an exploration. */
export interface LockOptions extends Partial<Omit<Setup, 'faults'>> {
  readonly faults: readonly LockFault[]
  /** Ends the search after this many states. Default: no limit. */
  readonly states?: number
}

export interface LockReport extends SearchResult {
  readonly counts: { grants: number; handovers: number; faults: Partial<Record<LockFault, number>> }
  /** The steps that led to the violation, described in words. */
  readonly story: readonly string[]
}

/**
 * Returns a setup. By default, two candidates are in one cluster and one is in another. The lease and the bound are as
 * short as possible while the lease is one tick longer.
 */
export function setupOf({ faults, ...options }: LockOptions): Setup {
  return {
    leaseTicks: 2,
    boundTicks: 1,
    retryTicks: 1,
    candidates: [0, 0, 1],
    budget: 1,
    mistake: undefined,
    ...options,
    faults: new Set(faults),
  }
}

interface Move {
  readonly what: string
  readonly isUrgent: boolean
  readonly fault?: LockFault
  run(): Scene
}

const tick = 'a tick'

export async function exploreLock(options: LockOptions): Promise<LockReport> {
  const setup = setupOf(options)
  const counts: LockReport['counts'] = { grants: 0, handovers: 0, faults: {} }
  const world: SearchedModel<Scene> = {
    first: firstScene(setup),
    write: (scene) => writeScene(scene, setup),
    read: (bytes, offset) => readScene(bytes, offset),
    expand(scene, visit) {
      for (const move of movesOf(scene, setup)) {
        const next = move.run()
        count(counts, scene, next, move)
        if (!visit(next, 0, violationOf(scene, next, setup))) return
      }
    },
  }
  const found = await search(world, { seconds: 3_600, states: options.states ?? Infinity }, systemClock)
  return { ...found, counts, story: found.violation ? retrace(setup, found.violation.trace) : [] }
}

/** Returns all possible moves. Time advances only if nothing has to happen first. */
function movesOf(scene: Scene, setup: Setup): Move[] {
  if (scene.dawn) return dawnMoves(scene, setup)
  const moves: Move[] = []
  const add = (what: string, isUrgent: boolean, run: () => Scene) => moves.push({ what, isUrgent, run })
  const fault = (kind: LockFault, what: string, run: () => Scene) => {
    if (scene.budget === 0 || !setup.faults.has(kind)) return
    moves.push({ what, isUrgent: false, fault: kind, run: () => ({ ...run(), budget: scene.budget - 1 }) })
  }
  for (const [who, candidate] of scene.candidates.entries()) {
    if (candidate.life !== 'running') continue
    const name = 'abc'[who] ?? ''
    const put = (after: Candidate, of = scene): Scene => ({ ...of, candidates: withAt(of.candidates, who, after) })
    const { waits } = candidate
    if (waits?.answer) add(`${name} takes its answer`, true, () => takes(scene, who, setup))
    // A timer and an answer may arrive in either order.
    if (waits && -waits.sentTicks >= setup.boundTicks)
      add(`${name} no longer waits`, !waits.answer, () => put(givesUp(candidate, setup)))
    if (!waits && candidate.nextTicks <= 0) add(`${name} asks`, true, () => sends(scene, who, setup))
    if (waits?.answer) fault('stall', `${name} stalls`, () => put({ ...candidate, life: 'stalled' }))
    fault('crash', `${name} crashes`, () => put(down, { ...scene, late: scene.late }))
    if (!waits && believes(candidate, setup)) fault('stop', `${name} stops`, () => releases(scene, who, setup))
  }
  for (const [at, request] of scene.requests.entries()) {
    const rest = { ...scene, requests: scene.requests.filter((_, index) => index !== at) }
    const what = `the ${request.claim.verb} of ${'abc'[request.who]}`
    add(`${what} is answered`, true, () => carryOut(rest, request, true))
    fault('late', `${what} is delayed`, () => ({ ...rest, late: [...rest.late, request] }))
    fault('lost', `${what} is lost`, () => rest)
    fault('unheard', `the answer to ${what} is lost`, () => carryOut(rest, request, false))
    fault('doubled', `${what} is answered, and arrives once more later`, () => ({
      ...carryOut(rest, request, true),
      late: [...rest.late, request],
    }))
  }
  for (const [at, request] of scene.late.entries()) {
    const rest = { ...scene, late: scene.late.filter((_, index) => index !== at) }
    add(`the late ${request.claim.verb} of ${'abc'[request.who]} arrives`, false, () => carryOut(rest, request, true))
  }
  if (moves.some(({ isUrgent }) => isUrgent)) return moves
  return [...moves, { what: tick, isUrgent: true, run: () => later(scene) }]
}

function dawnMoves(scene: Scene, setup: Setup): Move[] {
  const moves: Move[] = [{ what: 'the day begins', isUrgent: true, run: () => ({ ...scene, dawn: false }) }]
  for (const [who, candidate] of scene.candidates.entries()) {
    if (candidate.life === 'running') continue
    // Candidates of one cluster are interchangeable before the first request.
    const isTwin = who > 0 && setup.candidates[who - 1] === setup.candidates[who] && scene.names === 0
    if (isTwin && scene.candidates[who - 1]?.life === 'down') continue
    const candidates = withAt(scene.candidates, who, { ...candidate, life: 'running' as const })
    const what = `${'abc'[who]} ${candidate.life === 'down' ? 'begins' : 'goes on'}`
    moves.push({ what, isUrgent: true, run: () => ({ ...scene, candidates }) })
  }
  return moves
}

function later(scene: Scene): Scene {
  return {
    ...scene,
    writtenTicks: scene.writtenTicks - 1,
    candidates: scene.candidates.map((candidate) => ({
      ...candidate,
      nextTicks: candidate.nextTicks - 1,
      returnedTicks: candidate.returnedTicks - 1,
      waits: candidate.waits && { ...candidate.waits, sentTicks: candidate.waits.sentTicks - 1 },
    })),
    dawn: scene.candidates.some(({ life }) => life !== 'running'),
  }
}

/** Carries out a request. A relay that has watched the version from the beginning names it once it has expired. */
function carryOut(scene: Scene, { who, id, claim }: Request, isHeard: boolean): Scene {
  const { record, highestTerm, writtenTicks } = scene
  const current = { record, highestTerm, remainingMs: undefined }
  const hasExpired = record !== undefined && -writtenTicks >= record.leaseDurationMs
  const expired = hasExpired ? { expiredVersion: record.version } : {}
  const verdict =
    claim.verb === 'acquire'
      ? judgeAcquire(current, { ...claim.of, ...expired }, 0)
      : claim.verb === 'renew'
        ? judgeRenew(current, claim.of, 0)
        : judgeRelease(current, claim.of)
  let next = scene
  let answer: Outcome
  if ('answer' in verdict) ({ answer } = verdict)
  else {
    const names = scene.names + 1
    const written: LeaseRecord = { ...verdict.write, version: `n${names}` }
    next = { ...scene, names, record: written, highestTerm: Math.max(highestTerm, written.term), writtenTicks: 0 }
    answer = granted(written, claim.of)
  }
  const candidate = next.candidates[who]
  if (!isHeard || candidate?.waits?.id !== id || candidate.waits.answer) return next
  return { ...next, candidates: withAt(next.candidates, who, { ...candidate, waits: { ...candidate.waits, answer } }) }
}

function violationOf(before: Scene, after: Scene, setup: Setup): string | undefined {
  const leaders = after.candidates.flatMap((candidate, who) =>
    believes(candidate, setup) ? [{ who, term: candidate.term }] : [],
  )
  if (leaders.length > 1) return `I1: ${leaders.map(({ who }) => 'abc'[who]).join(' and ')} lead at the same time`
  const [leader] = leaders
  if (!leader) return undefined
  if (leader.term < before.believed.term) return 'I3: a term is lower than an earlier one'
  if (leader.term === before.believed.term && leader.who !== before.believed.who)
    return 'I3: two candidates led in one term'
  return undefined
}

function count(counts: LockReport['counts'], before: Scene, after: Scene, { fault }: Move): void {
  if (fault) counts.faults[fault] = (counts.faults[fault] ?? 0) + 1
  if (after.highestTerm <= before.highestTerm) return
  counts.grants += 1
  if (before.record && before.record.holder !== after.record?.holder) counts.handovers += 1
}

function retrace(setup: Setup, trace: readonly number[]): string[] {
  let scene = firstScene(setup)
  return trace.map((wanted) => {
    const move = movesOf(scene, setup)[wanted]
    const next = move ? move.run() : scene
    const broken = violationOf(scene, next, setup)
    scene = readScene(writeScene(next, setup).slice(), 0)
    return `${move?.what}${broken ? ` *** ${broken}` : ''}`
  })
}
