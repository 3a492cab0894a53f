/** The moves that are possible in a state. */
import type { MultiClusterLease } from '../../../../tenure/src/multicluster/protocol/resource-types.ts'
import { candidateMoves, nameOf } from './candidate.ts'
import {
  discard,
  fail,
  giveUp,
  isDue,
  isOpenAgain,
  isOver,
  isStale,
  judge,
  look,
  see,
  send,
  serveAgain,
  take,
} from './relay.ts'
import {
  blankRelay,
  clusterName,
  clusterNames,
  passerBy,
  signal,
  tickMs,
  withAt,
  type SpecOnlyFault,
  type Flight,
  type LateWrite,
  type RelaySlot,
  type Scene,
  type Setup,
} from './scene.ts'
import { carryOut } from './server.ts'

/** One possible move. */
export interface Move {
  readonly what: string
  /** Whether time must not advance before this move. */
  readonly isUrgent: boolean
  readonly fault?: SpecOnlyFault | undefined
  /** The cluster in which the move happens, if it affects a single one. */
  readonly cluster?: number | undefined
  /**
   * Whether the move calls the store, or lets a candidate begin to believe. In that case, its order relative to moves
   * in other clusters matters.
   */
  readonly isGlobal: boolean
  run(): Scene
}

/**
 * Returns all possible moves, except that time advances. A move within one cluster that does not call the store has the
 * same result before and after moves elsewhere. So if such moves must happen in a cluster, only that cluster is
 * followed first.
 */
export function movesOf(scene: Scene, setup: Setup): Move[] {
  const moves = allMoves(scene, setup)
  for (const cluster of clusterNames.keys()) {
    const own = moves.filter((move) => move.cluster === cluster)
    if (own.some(({ isUrgent }) => isUrgent) && own.every(({ isGlobal }) => !isGlobal)) return own
  }
  return moves
}

/** Each process that is down or stalled may either resume now or stay as it is. */
function dawnMoves(scene: Scene, setup: Setup): Move[] {
  const moves: Move[] = []
  const add = (what: string, run: () => Scene) => moves.push({ what, isUrgent: true, isGlobal: true, run })
  for (const [who, candidate] of scene.candidates.entries()) {
    if (candidate.life === 'running' || !mayBegin(scene, who, setup)) continue
    const what = candidate.life === 'down' ? 'begins' : 'goes on'
    const candidates = withAt(scene.candidates, who, { ...candidate, life: 'running' as const })
    add(`${nameOf(who, setup)} ${what}`, () => ({ ...scene, candidates }))
  }
  for (const [which, slot] of scene.relays.entries()) {
    if (slot.life === 'running') continue
    const relays = withAt(scene.relays, which, { ...slot, life: 'running' as const })
    add(`relay ${which + 1} goes on`, () => ({ ...scene, relays }))
  }
  add('the day begins', () => ({ ...scene, dawn: false }))
  return moves
}

/** If the clusters are symmetric, the first one begins, because swapping them would lead to the same states. */
function mayBegin({ server, resources, candidates }: Scene, who: number, { isSymmetric }: Setup): boolean {
  const isFirst = candidates.every(({ life }) => life === 'down') && server.highestTerm === 0
  return who === 0 || !isSymmetric || !isFirst || resources.some(Boolean)
}

/** Returns all possible moves, in every order. */
export function allMoves(scene: Scene, setup: Setup): Move[] {
  if (scene.dawn) return dawnMoves(scene, setup)
  const moves: Move[] = []
  const collect = (cluster?: number, before = moves.length): Collect => ({
    isBusy: () => moves.slice(before).some((move) => !move.fault),
    add: (what, kind, run) => {
      moves.push({ what, cluster, isUrgent: kind !== 'any time', isGlobal: kind !== 'local', run })
    },
    fault: (kind, what, run, isGlobal = false) => {
      if (scene.budget === 0 || !setup.faults.has(kind)) return
      const costly = () => ({ ...run(), budget: scene.budget - 1 })
      moves.push({ what, cluster, isUrgent: false, isGlobal, fault: kind, run: costly })
    },
  })
  for (const who of scene.candidates.keys()) candidateMoves(scene, who, setup, collect(setup.candidates[who]))
  for (const which of scene.relays.keys()) relayMoves(scene, which, setup, collect(setup.relays[which]?.cluster))
  const { add, fault } = collect()
  for (const [index, orphan] of scene.orphans.entries()) {
    add(`the store receives a late ${orphan.verb}`, 'any time', () => {
      const orphans = scene.orphans.filter((_, at) => at !== index)
      return carryOut({ ...scene, orphans }, orphan, setup).scene
    })
  }
  for (const [index, late] of scene.lateWrites.entries()) {
    collect(late.cluster).add(`${clusterName(late.cluster)} gets a late status`, 'any time', () => {
      const lateWrites = scene.lateWrites.filter((_, at) => at !== index)
      return write({ ...scene, lateWrites }, late) ?? { ...scene, lateWrites }
    })
  }
  for (const cluster of new Set(setup.candidates)) {
    const what = `somebody signals in ${clusterName(cluster)}`
    collect(cluster).fault('taken-over', what, () => signal(scene, cluster, passerBy(cluster), setup))
  }
  if (scene.server.record) {
    fault('deleted-record', 'the record is deleted', () => ({
      ...scene,
      server: { ...scene.server, record: undefined },
    }))
  }
  return moves
}

/**
 * Collects moves. `local` and `global` moves happen before time advances. An `any time` move may be the end of a
 * delayed call, which is also global.
 */
export interface Collect {
  add(what: string, kind: 'local' | 'global' | 'any time', run: () => Scene): void
  fault(kind: SpecOnlyFault, what: string, run: () => Scene, isGlobal?: boolean): void
  /** Returns whether any move without a fault was added. */
  isBusy(): boolean
}

function relayMoves(scene: Scene, which: number, setup: Setup, { add, fault, isBusy }: Collect): void {
  const slot = scene.relays[which]
  const place = setup.relays[which]
  if (!slot || !place) return
  const { cluster, isFirst } = place
  const name = `relay ${which + 1}`
  const put = (after: RelaySlot, of = scene): Scene => ({ ...of, relays: withAt(of.relays, which, after) })
  if (slot.life !== 'running') return
  const resource = scene.resources[cluster]
  if (resource && slot.resource?.resourceVersion !== resource.resourceVersion) {
    add(`${name} sees its resource`, 'local', () => {
      const after = see(slot, resource, cluster, setup)
      return put(after, after.flight ? scene : orphaned(scene, slot.flight))
    })
  }
  if (isOver(slot)) add(`${name} gives up`, 'local', () => put(giveUp(slot), orphaned(scene, slot.flight)))
  if (isStale(slot)) add(`${name} discards its confirmation`, 'local', () => put(discard(slot)))
  if (isOpenAgain(slot, cluster, setup)) {
    add(`${name} serves a refused heartbeat again`, 'local', () => put(serveAgain(slot)))
  }
  if (isDue(slot, isFirst)) sendMoves(scene, { slot, cluster, isFirst, name, put }, setup, { add, fault, isBusy })
  if (slot.flight) flightMoves(scene, { slot, cluster, isFirst, name, put }, setup, { add, fault, isBusy })
  if (slot.busyUntilMs <= 0) writeMoves(scene, { slot, cluster, isFirst, name, put }, { add, fault, isBusy })
  const { record } = scene.server
  const isNews =
    slot.seen.view?.record?.version !== record?.version || slot.seen.view?.record?.released !== record?.released
  if (setup.looks && slot.resource && slot.seen.view && isNews) {
    add(`${name} looks`, 'any time', () => put(look(slot, record, setup)))
  }
  // An idle relay may just as well stall later. While a relay sleeps, leases only expire later.
  if (isBusy()) {
    fault('relay-stall', `${name} stalls`, () => put({ ...slot, life: 'stalled' }))
    fault('relay-sleep', `${name} falls asleep`, () => put({ ...slot, life: 'asleep' }))
  }
  fault('relay-crash', `${name} crashes`, () => put({ ...blankRelay, life: 'down' }, orphaned(scene, slot.flight)))
}

interface At {
  readonly slot: RelaySlot
  readonly cluster: number
  readonly isFirst: boolean
  readonly name: string
  put(after: RelaySlot, of?: Scene): Scene
}

function sendMoves(scene: Scene, { slot, cluster, isFirst, name, put }: At, setup: Setup, { add, fault }: Collect) {
  const { slot: sent, step } = send(slot, cluster, isFirst, setup)
  if (!step) {
    add(`${name} has no call to make`, 'local', () => put(sent))
    return
  }
  const { verb } = step.call
  add(`${name} has its ${verb} answered`, 'global', () => {
    const { scene: after, answer } = carryOut(scene, step.call, setup)
    return put(take(sent, step, answer, cluster, setup), after)
  })
  if (verb !== 'read') {
    fault('lost', `the ${verb} of ${name} is lost`, () => put(fail(sent)))
    fault(
      'unheard',
      `the answer to the ${verb} of ${name} is lost`,
      () => put(fail(sent), carryOut(scene, step.call, setup).scene),
      true,
    )
    fault(
      'unheard',
      `${name} crashes before its ${verb} is answered`,
      () => put({ ...blankRelay, life: 'down' }, carryOut(scene, step.call, setup).scene),
      true,
    )
  }
  fault('late', `the ${verb} of ${name} is delayed`, () => put({ ...sent, flight: { step } }))
}

function flightMoves(scene: Scene, { slot, cluster, name, put }: At, setup: Setup, { add }: Collect) {
  const { flight } = slot
  if (!flight) return
  const { step, answer } = flight
  add(`${name} no longer waits for its ${step.call.verb}`, 'any time', () => put(fail(slot), orphaned(scene, flight)))
  if (answer) {
    add(`${name} gets a late answer`, 'any time', () => put(take(slot, step, answer, cluster, setup)))
    return
  }
  add(`the store receives the ${step.call.verb} of ${name}`, 'any time', () => {
    const { scene: after, answer: given } = carryOut(scene, step.call, setup)
    return put({ ...slot, flight: { step, answer: given } }, after)
  })
}

function writeMoves(scene: Scene, { slot, cluster, isFirst, name, put }: At, { add, fault }: Collect) {
  const status = judge(slot, cluster)
  const over = slot.resource?.resourceVersion
  if (!status || over === undefined) return
  const isConfirmation = status.observedGeneration !== slot.resource?.status.observedGeneration
  const late: LateWrite = { cluster, over, status }
  const kind = isFirst || isConfirmation ? 'local' : 'any time'
  const what = isConfirmation ? `confirms generation ${status.observedGeneration}` : 'writes the status'
  // After a conflict the relay reads the resource, which is a separate move.
  if (scene.resources[cluster]?.resourceVersion === over) {
    add(`${name} ${what}`, kind, () => put(discard(slot), write(scene, late)))
    fault('late-write', `${name} ${what}, but the write is delayed`, () =>
      put({ ...discard(slot), busyUntilMs: tickMs }, { ...scene, lateWrites: [...scene.lateWrites, late] }),
    )
  }
}

/** Writes a status if the resource has not changed. Otherwise returns undefined. */
function write(scene: Scene, { cluster, over, status }: LateWrite): Scene | undefined {
  const before = scene.resources[cluster]
  if (before?.resourceVersion !== over) return undefined
  const names = scene.names + 1
  const after: MultiClusterLease = { ...before, status, resourceVersion: `n${names}` }
  return { ...scene, names, resources: withAt(scene.resources, cluster, after) }
}

/** The relay no longer waits for this call, but the call may still be carried out. */
function orphaned(scene: Scene, flight: Flight | undefined): Scene {
  if (!flight || flight.answer || flight.step.call.verb === 'read') return scene
  return { ...scene, orphans: [...scene.orphans, flight.step.call] }
}
