/**
 * Explores a group of shards: every order of calls, answers, and time, with a bounded number of faults. The members, the
 * coordinator, and the rules of the store are the real functions. There is one shard, because shards do not affect each
 * other, and balancing is arbitrary.
 */
import { systemClock } from '../../../src/common/clock.ts'
import {
  search,
  type SearchResult,
  type SearchedModel,
  type Violation,
} from '../../../../testing/src/simulation/explore/search.ts'
import { agedCoordinator, coordinatorTakes, dueCalls, memberTakes, taken } from './process.ts'
import { readScene, writeScene } from './encoding.ts'
import { apply } from './store.ts'
import {
  believes,
  downProcess,
  firstScene,
  nameOf,
  violationOf,
  withAt,
  withToken,
  type ModelCall,
  type ModelElection,
  type ModelProcess,
  type ShardFault,
  type ShardScene,
  type ShardSetup,
} from './scene.ts'

/** What to explore. */
export interface ShardOptions extends Partial<Omit<ShardSetup, 'faults'>> {
  readonly faults: readonly ShardFault[]
  /** Ends the search beyond this number of states. Default: no bound. */
  readonly states?: number
}

export interface ShardReport extends SearchResult {
  /** How often each kind of fault was injected, and how often the shard got another owner. */
  readonly counts: { owners: number; faults: Partial<Record<ShardFault, number>> }
  /** The steps that led to the violation, in words. */
  readonly story: readonly string[]
}

interface Move {
  readonly what: string
  /** Time passes only if no move is urgent. */
  readonly isUrgent: boolean
  readonly fault?: ShardFault
  run(): ShardScene
}

function setupOf({ faults, ...options }: ShardOptions): ShardSetup {
  const processes = options.processes ?? 2
  return {
    processes,
    seats: processes,
    keepsTerms: true,
    leaseTicks: 2,
    observesEarly: false,
    budget: 1,
    ...options,
    faults: new Set(faults),
  }
}

export async function exploreShards(options: ShardOptions): Promise<ShardReport> {
  const setup = setupOf(options)
  const counts: ShardReport['counts'] = { owners: 0, faults: {} }
  const world: SearchedModel<ShardScene> = {
    first: firstScene(setup),
    write: (scene) => writeScene(scene, setup),
    read: (bytes, offset) => readScene(bytes, offset, setup),
    expand(scene, visit) {
      for (const { run, fault } of movesOf(scene, setup)) {
        const ran = run()
        const next = withToken(ran, setup)
        if (fault) counts.faults[fault] = (counts.faults[fault] ?? 0) + 1
        if (next.owner !== scene.owner) counts.owners += 1
        if (!visit(next, 0, violationOf(ran, setup) ?? violationOf(next, setup))) return
      }
    },
    stuck: (scene) => stuckIn(scene, setup),
  }
  const found = await search(world, { seconds: 3_600, states: options.states ?? Infinity }, systemClock)
  return { ...found, counts, story: found.violation ? retrace(setup, found.violation.trace) : [] }
}

function movesOf(scene: ShardScene, setup: ShardSetup): readonly Move[] {
  const moves: Move[] = []
  const put = (who: number, after: ModelProcess, of = scene): ShardScene => ({
    ...of,
    processes: withAt(of.processes, who, after),
  })
  const add = (what: string, isUrgent: boolean, run: () => ShardScene) => moves.push({ what, isUrgent, run })
  const fault = (kind: ShardFault, what: string, run: () => ShardScene) => {
    if (scene.budget === 0 || !setup.faults.has(kind)) return
    moves.push({ what, isUrgent: false, fault: kind, run: () => ({ ...run(), budget: scene.budget - 1 }) })
  }
  for (const [who, process] of scene.processes.entries()) {
    const name = nameOf(who)
    if (process.life === 'down') {
      // Processes are interchangeable before they start for the first time.
      const isTwin = who > 0 && scene.processes[who - 1]?.life === 'down'
      if (!isTwin) add(`${name} starts`, false, () => put(who, { ...process, life: 'up' }))
      continue
    }
    if (process.life === 'stalled') {
      add(`${name} goes on`, false, () => goesOn(scene, who, setup))
      continue
    }
    if (process.member.member && !believes(process, setup)) {
      add(`${name} loses its seat by the clock`, true, () =>
        put(who, { ...memberTakes(process, { type: 'seat-lost' }, setup), mustRelease: false }),
      )
      continue
    }
    for (const call of dueCalls(scene, who, setup).slice(0, 1)) addCall(scene, who, call, setup, add, fault)
    for (const { shard, isAborted } of process.member.work) {
      if (isAborted)
        add(`the work of ${name} settles`, false, () =>
          put(who, memberTakes(process, { type: 'settled', shard }, setup)),
        )
    }
    const { phase, member } = process.member
    if (member && phase === 'joined')
      fault('leave', `${name} leaves`, () => put(who, memberTakes(process, { type: 'leave' }, setup)))
    if (member && phase === 'leaving')
      add(`${name} closes`, false, () => put(who, memberTakes(process, { type: 'close' }, setup)))
    fault('stall', `${name} stalls`, () => put(who, { ...process, life: 'stalled' }))
    fault('crash', `${name} crashes`, () => put(who, downProcess(setup.keepsTerms)))
  }
  for (const [at, call] of scene.late.entries()) {
    const rest = { ...scene, late: scene.late.filter((_, index) => index !== at) }
    add(`a late ${call.verb} arrives`, false, () => apply(rest, call, setup).scene)
  }
  addOperatorFaults(scene, setup, fault)
  if (moves.some(({ isUrgent }) => isUrgent)) return moves
  return [...moves, { what: 'a tick', isUrgent: true, run: () => later(scene, setup) }]
}

function addCall(
  scene: ShardScene,
  who: number,
  call: ModelCall,
  setup: ShardSetup,
  add: (what: string, isUrgent: boolean, run: () => ShardScene) => void,
  fault: (kind: ShardFault, what: string, run: () => ShardScene) => void,
): void {
  const process = scene.processes[who] as ModelProcess
  // The name of a new attempt is in the call, so it counts even if the call is never carried out.
  const named = call.verb.startsWith('take') ? { ...scene, names: scene.names + 1 } : scene
  const what = `${call.verb} of ${nameOf(who)}${'seat' in call ? ` (seat ${call.seat})` : ''}`
  const put = (of: ShardScene, after: ModelProcess): ShardScene => ({
    ...of,
    processes: withAt(of.processes, who, after),
  })
  add(what, true, () => {
    const { scene: next, answer } = apply(named, call, setup)
    return put(next, taken(next, process, call, answer, 0, setup))
  })
  fault('stall', `${what}, which stalls before it takes the answer`, () => {
    const { scene: next, answer } = apply(named, call, setup)
    return put(next, { ...process, life: 'stalled', inbox: { call, answer, ticks: 0 } })
  })
  fault('lost-answer', `${what}, whose answer is lost`, () => {
    const { scene: next } = apply(named, call, setup)
    return put(next, taken(next, process, call, undefined, 0, setup))
  })
  if (call.verb === 'read' || call.verb === 'read-seat') return
  fault('late-request', `${what}, which is late`, () =>
    put({ ...named, late: [...named.late, call] }, taken(named, process, call, undefined, 0, setup)),
  )
}

function addOperatorFaults(
  scene: ShardScene,
  setup: ShardSetup,
  fault: (kind: ShardFault, what: string, run: () => ShardScene) => void,
): void {
  const deleted = ({ highestTerm }: ModelElection): ModelElection => ({
    record: undefined,
    highestTerm: setup.keepsTerms ? highestTerm : 0,
    ageTicks: 0,
    isByHand: false,
  })
  if (scene.group.record)
    fault('delete-group', "the group's record is deleted", () => ({ ...scene, group: deleted(scene.group) }))
  for (const [seat, election] of scene.seats.entries()) {
    const { record } = election
    if (seat !== scene.preferred) fault('move', `balancing prefers seat ${seat}`, () => prefers(scene, seat, setup))
    if (record)
      fault('delete-seat', `seat ${seat} is deleted`, () => ({
        ...scene,
        seats: withAt(scene.seats, seat, deleted(election)),
      }))
    if (!record || record.released) continue
    fault('release-by-hand', `seat ${seat} is released by hand`, () => {
      const names = scene.names + 1
      const released = { ...election, isByHand: true, record: { ...record, released: true, version: `#${names}` } }
      return { ...scene, names, seats: withAt(scene.seats, seat, released) }
    })
  }
}

function prefers(before: ShardScene, preferred: number, setup: ShardSetup): ShardScene {
  const scene = { ...before, preferred }
  const wake = (process: ModelProcess) =>
    process.life === 'up' ? coordinatorTakes(scene, process, { type: 'wake', nowMs: 0 }, setup) : process
  return { ...scene, processes: scene.processes.map(wake) }
}

function goesOn(scene: ShardScene, who: number, setup: ShardSetup): ShardScene {
  const process = scene.processes[who] as ModelProcess
  const awake: ModelProcess = { ...process, life: 'up', inbox: 0, done: [] }
  const { inbox } = process
  const after = inbox === 0 ? awake : taken(scene, awake, inbox.call, inbox.answer, inbox.ticks, setup)
  return { ...scene, processes: withAt(scene.processes, who, after) }
}

/**
 * Time passes. A running process renews its leases at the beginning of each tick, unless its record was changed by
 * others. It then notices when it renews by itself.
 */
function later(scene: ShardScene, setup: ShardSetup): ShardScene {
  const { leaseTicks } = setup
  const older = (ticks: number) => Math.min(ticks + 1, leaseTicks)
  let { names } = scene
  const renewed = (election: ModelElection, isMine: boolean): ModelElection => {
    const { record } = election
    if (!record || record.released || !isMine) return { ...election, ageTicks: older(election.ageTicks) }
    names += 1
    return { ...election, ageTicks: 0, record: { ...record, version: `#${names}` } }
  }
  const running = scene.processes.filter(({ life }) => life === 'up')
  const coordinates = ({ coordinator }: ModelProcess) =>
    coordinator !== 0 && coordinator.version === scene.group.record?.version
  const group = renewed(scene.group, running.some(coordinates))
  const holds = ({ member, seatVersion, mustRelease }: ModelProcess, seat: number) =>
    member.member?.seat === seat && seatVersion === scene.seats[seat]?.record?.version && !mustRelease
  const seats = scene.seats.map((election, seat) =>
    renewed(
      election,
      running.some((one) => holds(one, seat)),
    ),
  )
  const processes = scene.processes.map((process): ModelProcess => {
    const { inbox, coordinator, life, member } = process
    const seat = member.member?.seat ?? -1
    const isHeld = life === 'up' && holds(process, seat) && seats[seat]?.ageTicks === 0
    const isCoordinator = life === 'up' && coordinates(process) && group.ageTicks === 0
    const version = {
      version: isCoordinator ? (group.record?.version ?? '') : coordinator === 0 ? '' : coordinator.version,
    }
    return {
      ...process,
      sentTicks: isHeld ? 0 : older(process.sentTicks),
      seatVersion: isHeld ? (seats[seat]?.record?.version ?? '') : process.seatVersion,
      done: [],
      inbox: inbox === 0 ? 0 : { ...inbox, ticks: older(inbox.ticks) },
      coordinator: coordinator === 0 ? 0 : { ...agedCoordinator(coordinator, 1, setup), ...version },
    }
  })
  return { ...scene, group, seats, processes, names }
}

/** S3: without further faults, the shard has an owner again within this many ticks. */
const settledTicks = 40

function stuckIn(scene: ShardScene, setup: ShardSetup): Violation | undefined {
  let current = { ...scene, budget: 0 }
  const trace: number[] = []
  for (let ticks = 0; ticks < settledTicks;) {
    const moves = movesOf(current, setup)
    // A lost member's shard is owned again even if its process does not return.
    const isAlone = current.processes.every(({ life }) => life === 'down')
    const calm = moves.findIndex(({ what }) => (isAlone ? /starts/ : /goes on|settles/).test(what))
    const at = calm >= 0 ? calm : moves.findIndex(({ isUrgent }) => isUrgent)
    const move = moves[at]
    if (!move) break
    if (move.what === 'a tick') ticks += 1
    current = withToken(move.run(), setup)
    trace.push(at)
    const broken = violationOf(current, setup)
    if (broken) return { what: broken, trace: [] }
    const isOwned = current.processes.some(
      (process) => believes(process, setup) && process.member.work.some(({ isAborted }) => !isAborted),
    )
    if (isOwned && ticks > 2) return undefined
    if (trace.length > 4_000) break
  }
  // The indexes of calm moves do not count the faults that were possible, so this trace is not replayed.
  return { what: `S3: nobody owns the shard after ${settledTicks} ticks without a fault`, trace: [] }
}

/** What random walks have covered. */
export interface WalkReport {
  readonly walks: number
  readonly steps: number
  readonly faults: number
  /** The number of states from which the walk went on without further faults until the shard had an owner. */
  readonly settled: number
  readonly violation?: { readonly what: string; readonly walk: number } | undefined
  readonly story: readonly string[]
}

/** The share of steps that are faults, and the length of a walk. */
const [faultShare, walkSteps] = [0.08, 240]

/**
 * Walks at random: `walks` walks of up to 240 steps, which the seed reproduces. States are never encoded, so nothing is
 * merged. Each walk is checked for S3 at a random step and at its end.
 */
export function walkShards(options: ShardOptions & { readonly seed: number; readonly walks: number }): WalkReport {
  const setup = setupOf(options)
  let [steps, faults, settled] = [0, 0, 0]
  for (let walk = 0; walk < options.walks; walk += 1) {
    const random = randomNumbers(options.seed * 1_000_003 + walk)
    const checkAt = Math.floor(random() * walkSteps)
    const story: string[] = []
    let scene = firstScene(setup)
    for (let step = 0; step < walkSteps; step += 1) {
      const all = movesOf(scene, setup)
      const wantsFault = random() < faultShare
      const wanted = all.filter(({ fault }) => (fault !== undefined) === wantsFault)
      const moves = wanted.length > 0 ? wanted : all
      const move = moves[Math.floor(random() * moves.length)] as Move
      const ran = move.run()
      const next = withToken(ran, setup)
      story.push(move.what)
      steps += 1
      if (move.fault) faults += 1
      const broken = violationOf(ran, setup) ?? violationOf(next, setup)
      const isChecked = step === checkAt || step === walkSteps - 1
      const what = broken ?? (isChecked ? stuckIn(next, setup)?.what : undefined)
      if (what) return { walks: walk, steps, faults, settled, violation: { what, walk }, story }
      if (isChecked) settled += 1
      scene = next
    }
  }
  return { walks: options.walks, steps, faults, settled, story: [] }
}

/** Random numbers from 0 to 1 that follow from a seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let bits = Math.imul(state ^ (state >>> 15), state | 1)
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61)
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }
}

function retrace(setup: ShardSetup, trace: readonly number[]): string[] {
  let scene = firstScene(setup)
  return trace.map((wanted) => {
    const move = movesOf(scene, setup)[wanted]
    const ran = move ? move.run() : scene
    const broken = violationOf(ran, setup)
    scene = readScene(writeScene(withToken(ran, setup), setup).slice(), 0, setup)
    return `${move?.what}${broken ? ` *** ${broken}` : ''}`
  })
}
