/** All possible next steps: messages arrive, timers fire, work settles, processes start and stop, time passes. */
import { TenureError } from 'tenure'
import type { Driver, NewerGeneration } from 'tenure/internal'
import type { TransitionChecker } from './checker.ts'
import { addPassingFaults, addRelayFaults, nameIn, relayArrivals } from './relay-moves.ts'
import { abandoned, act, settle, withoutEvents } from './process.ts'
import { carryOutPursuit, pipeEnded, type ModelGuard } from './guard-model.ts'
import { arriveAtRelay, asked, relaysFor } from './relay-model.ts'
import { eventFor, handle, meddled } from './server.ts'
import {
  down,
  isProcess,
  leaseDurationMs,
  type Fault,
  type ModelMessage,
  type ModelProcess,
  type ModelState,
  type Setup,
} from './model-state.ts'

/** One possible step. */
export interface Move {
  readonly who: string
  what(): string
  /** 1 if time passes, otherwise 0. */
  readonly ticks: 0 | 1
  readonly fault?: Fault | undefined
  /** A late message arrives. It could equally well arrive much later. */
  readonly isLate?: boolean | undefined
  run(tools: Tools): ModelState
}

/** The arguments that every step needs. */
export interface Tools {
  readonly setup: Setup
  readonly course: TransitionChecker
  chance(): number
}

/**
 * Returns the steps without a fault, in an order that depends only on the state. Time passes last, if nothing must
 * happen first.
 */
export function naturalMoves(scene: ModelState, setup: Setup): Move[] {
  const day = { ...scene, dawn: false }
  const moves = scene.dawn ? arrivals(scene, setup) : restarts(scene, setup)
  // These come first, so that the check of the liveness bound follows an elector that always sees a newer member.
  if (setup.newerGeneration) moves.push(...sightings(scene, day, setup))
  const add = (who: string, what: () => string, run: (tools: Tools) => ModelState, isLate = false) =>
    moves.push({ who, what, ticks: 0, run, isLate })
  let isPressing = false
  const heard = new Set<number>()
  for (const [index, message] of scene.messages.entries()) {
    const { kind, who, late, ageTicks } = message
    const to = receivers(scene, message, setup)
    if (to.length === 0) continue
    // Events of one watch arrive in order.
    if (kind === 'event' && heard.has(who)) continue
    if (kind === 'event') heard.add(who)
    isPressing ||= !late && ageTicks >= setup.delayTicks
    for (const one of to) {
      add(
        nameIn(setup, one),
        () => `gets ${describe(message, setup)}`,
        (tools) => arrive(without(day, index), message, tools, one - scene.slots.length),
        late,
      )
    }
  }
  for (const [index, { claim, attempt }] of scene.pursuits.entries()) {
    const what = () => `${claim ? 'releases' : 'reads'} the lease of ${attempt.holder}`
    add('guard', what, (tools) => carryOutPursuit(day, index, tools), true)
  }
  for (const [who, slot] of scene.slots.entries()) {
    if (!isProcess(slot) || slot.life !== 'running') continue
    const name = nameIn(setup, who)
    if (slot.wakeAtMs !== undefined && slot.wakeAtMs <= 0) {
      isPressing = true
      add(
        name,
        () => 'is woken by its timer',
        (tools) => act(day, who, tools, (driver) => driver.woken()),
      )
    }
    if (slot.boundAtMs !== undefined && slot.boundAtMs <= 0) {
      isPressing = true
      add(
        name,
        () => 'stops waiting for the answer',
        (tools) => {
          countUnknown(slot, tools)
          return act(day, who, tools, fail, slot.flight)
        },
      )
    }
  }
  // Work settles before everything else in a tick, or after everything else.
  if (scene.dawn || !isPressing) moves.push(...settlements(scene, day, setup))
  if (!isPressing) {
    const run = ({ course }: Tools) => {
      course.waits(scene)
      return { ...scene, dawn: true }
    }
    moves.push({ who: '', what: () => 'a tick passes', ticks: 1, run })
  }
  return moves
}

/**
 * Returns the receivers that a message can reach now. Electors are numbered from 0, relays follow, and the store is -1.
 */
function receivers(scene: ModelState, { kind, who, via }: ModelMessage, setup: Setup): readonly number[] {
  const electors = scene.slots.length
  if (kind === 'request' && (via !== undefined || !setup.between)) return [-1]
  if (kind === 'request') return relaysFor(scene, setup, who).map((relay) => electors + relay)
  const to = via === undefined ? who : electors + via
  const { life } = scene.slots[to] ?? scene.relays[to - electors] ?? down
  return life === 'running' ? [to] : []
}

function arrivals(scene: ModelState, setup: Setup): Move[] {
  const electors = scene.slots.flatMap((slot, who): Move[] => {
    if (slot.life === 'running') return []
    if (slot.life === 'down') return [start(scene, who, setup)]
    // A paused process could not step down, so its time starts again.
    const unfitSinceMs = slot.unfitBy ? 0 : slot.unfitSinceMs
    const running = withSlot(scene, who, { ...slot, life: 'running', unfitSinceMs })
    return [{ who: nameIn(setup, who), what: () => 'resumes', ticks: 0, run: () => running }]
  })
  return [...relayArrivals(scene, setup), ...recoveries(scene, setup), ...electors]
}

/** A process that was ineligible or stalled may become fit to lead again at any time. */
function recoveries(scene: ModelState, setup: Setup): Move[] {
  return scene.slots.flatMap((slot, who): Move[] => {
    if (slot.unfitBy === undefined) return []
    const fit = withSlot(scene, who, { ...slot, unfitBy: undefined, unfitSinceMs: -Infinity })
    return [{ who: nameIn(setup, who), what: () => 'may lead again', ticks: 0, run: () => fit }]
  })
}

/** A process may start at any point of a tick while messages of its previous incarnation are in flight. */
function restarts(scene: ModelState, setup: Setup): Move[] {
  return scene.slots.flatMap((slot, who): Move[] => {
    const isBeside = slot.life === 'down' && scene.messages.some((message) => message.orphan && message.who === who)
    return isBeside ? [start(scene, who, setup)] : []
  })
}

function start(scene: ModelState, who: number, setup: Setup): Move {
  const begin = (driver: Driver) => driver.dispatch({ type: 'start' })
  return { who: nameIn(setup, who), what: () => 'starts', ticks: 0, run: (tools) => act(scene, who, tools, begin) }
}

function settlements(scene: ModelState, day: ModelState, setup: Setup): Move[] {
  return scene.slots.flatMap((slot, who): Move[] => {
    if (!isProcess(slot) || slot.life !== 'running' || slot.work === 0 || slot.state.phase === 'leading') return []
    const settled = settle(day, who)
    const pending = slot.work - 1
    const report = (driver: Driver) => driver.dispatch({ type: 'work', pending })
    const run = (tools: Tools) => act(settled, who, tools, report)
    return [{ who: nameIn(setup, who), what: () => 'has finished its work', ticks: 0, run }]
  })
}

/**
 * The first elector sees a member of a newer generation, at most once per tick, or sees that this member has left. The
 * member counts until the lease of its seat expires.
 */
function sightings({ slots: [slot] }: ModelState, day: ModelState, setup: Setup): Move[] {
  if (!isProcess(slot) || slot.life !== 'running' || slot.state.phase === 'idle') return []
  const known = slot.state.preference.newer
  const sighting = (newer: NewerGeneration | undefined, what: string): Move => {
    const tell = (driver: Driver) => driver.dispatch({ type: 'members', newer })
    // A member need not leave, so the check of the liveness bound keeps it.
    return {
      who: nameIn(setup, 0),
      what: () => what,
      ticks: 0,
      isLate: !newer,
      run: (tools) => act(day, 0, tools, tell),
    }
  }
  const seen = { generation: newestGeneration, untilMs: leaseDurationMs }
  const isSeenNow = known !== undefined && known.untilMs >= leaseDurationMs
  return [
    ...(isSeenNow ? [] : [sighting(seen, 'sees a member of a newer generation')]),
    ...(known ? [sighting(undefined, 'sees that the newer member has left')] : []),
  ]
}

/** No decision reads it. */
const newestGeneration = 1

/** Returns the steps with a fault. */
export function faultMoves(scene: ModelState, setup: Setup): Move[] {
  if (scene.budget === 0) return []
  const moves: Move[] = []
  const add = (fault: Fault, who: string, what: () => string, run: (next: ModelState, tools: Tools) => ModelState) => {
    if (!setup.faults.has(fault)) return
    const next = { ...scene, budget: scene.budget - 1, strain: Math.min(2, scene.strain + strainOf(fault)) }
    moves.push({ who, what, ticks: 0, fault, run: (tools) => run(next, tools) })
  }
  for (const [index, message] of scene.messages.entries()) {
    const { kind, who, claim, late } = message
    const name = nameIn(setup, who)
    const text = (what: string) => () => `FAULT: ${describe(message, setup)} ${what}`
    const change = (next: ModelState, other: ModelMessage) => ({ ...next, messages: next.messages.with(index, other) })
    if (!late) add('late', name, text('is delayed'), (next) => change(next, { ...message, late: true }))
    if (kind === 'event') continue
    addPassingFaults(scene, index, setup, add)
    add('lost', name, text('is lost'), (next) => lose(next, index, message))
    if (message.via !== undefined && (kind === 'reply' || message.orphan)) continue
    if (kind === 'reply' && !message.reply?.failed) {
      add('failed', name, text('is replaced by an error'), (next) =>
        change(next, { ...message, reply: { failed: true } }),
      )
    }
    if (kind === 'reply') continue
    if (message.via === undefined) {
      add('failed', name, text('fails at once'), (next) => answer(without(next, index), message, { failed: true }))
    }
    add('doubled', name, text('is duplicated'), (next) => ({
      ...next,
      messages: [...next.messages, { ...message, late: true }],
    }))
    if (claim && (message.via !== undefined || !setup.between)) {
      add('lost-swap', name, text('loses against another write'), (next, { course }) => {
        const { scene: after, reply } = handle(without(next, index), message, setup, course, true)
        return answer(after, message, reply)
      })
    }
  }
  addRelayFaults(scene, setup, add)
  for (const [who, slot] of scene.slots.entries()) {
    if (!isProcess(slot)) continue
    const name = nameIn(setup, who)
    add(
      'crash',
      name,
      () => 'FAULT: crashes',
      (next) => ({
        ...withSlot(next, who, down),
        messages: abandoned(next.messages, who),
        pursuits: [...next.pursuits, ...pipeEnded(slot.guarded, 'gone')],
      }),
    )
    if (slot.guarded) {
      add(
        'closed-pipe',
        name,
        () => 'FAULT: the pipe to its guard is closed',
        (next) => ({
          ...withSlot(next, who, { ...slot, guarded: undefined }),
          pursuits: [...next.pursuits, ...pipeEnded(slot.guarded, 'running')],
        }),
      )
    }
    if (slot.life !== 'running') continue
    add(
      'stall',
      name,
      () => 'FAULT: stalls',
      (next) => withSlot(next, who, { ...slot, life: 'stalled', disturbed: true }),
    )
    add(
      'sleep',
      name,
      () => 'FAULT: sleeps',
      (next) => withSlot(next, who, { ...slot, life: 'asleep', disturbed: true }),
    )
    const { leaseDurationMs: cooldownMs } = slot.state.settings
    add(
      'step-down',
      name,
      () => 'FAULT: steps down',
      (next, tools) => {
        const told = withSlot(next, who, { ...slot, toldToYield: true })
        return act(told, who, tools, (driver) => driver.dispatch({ type: 'step-down', cooldownMs }))
      },
    )
    // The last name belongs to nobody.
    for (const successor of [...setup.settings.map(({ identity }) => identity), 'nobody']) {
      if (successor === slot.state.settings.identity) continue
      add(
        'hand-over',
        name,
        () => `FAULT: hands over to ${successor}`,
        (next, tools) => {
          const told = withSlot(next, who, { ...slot, toldToYield: true })
          return act(told, who, tools, (driver) => driver.dispatch({ type: 'step-down', cooldownMs, successor }))
        },
      )
    }
    for (const unfitBy of ['ineligible', 'no-progress'] as const) {
      if (slot.unfitBy !== undefined) continue
      const what = () => `FAULT: ${unfitBy === 'ineligible' ? 'is no longer eligible' : 'makes no more progress'}`
      add(unfitBy, name, what, (next) => withSlot(next, who, { ...slot, unfitBy, unfitSinceMs: 0 }))
    }
    add(
      'stop',
      name,
      () => 'FAULT: is stopped',
      (next, tools) => {
        const told = withSlot(next, who, { ...slot, toldToStop: true })
        return act(told, who, tools, (driver) => driver.dispatch({ type: 'stop' }))
      },
    )
    if (!slot.watching) continue
    add(
      'watch-end',
      name,
      () => 'FAULT: its watch ends',
      (next, tools) => {
        const messages = withoutEvents(next.messages, who)
        const unwatched = withSlot({ ...next, messages }, who, { ...slot, watching: false })
        return act(unwatched, who, tools, (driver) => driver.dispatch({ type: 'watch-ended' }))
      },
    )
    add(
      'watch-replay',
      name,
      () => 'FAULT: its watch shows the past again',
      (next) => ({
        ...next,
        messages: [...next.messages, eventFor(who, next.server.past)],
      }),
    )
  }
  if (scene.server.record) {
    add(
      'touched-record',
      'store',
      () => 'FAULT: the record is rewritten unchanged',
      (next) => meddled(next, setup, false),
    )
    add(
      'deleted-record',
      'store',
      () => 'FAULT: the record is deleted',
      (next) => meddled(next, setup, true),
    )
  }
  return moves
}

/**
 * Returns whether a fault excuses the end of a leadership. 0: it does not. 1: together with another fault. 2: by
 * itself.
 */
function strainOf(fault: Fault): number {
  switch (fault) {
    case 'late':
    case 'lost':
    case 'doubled':
    case 'failed':
      return 1
    case 'relay-crash':
    case 'relay-stall':
    case 'relay-sleep':
      return 2
    default:
      return 0
  }
}

/** `relay`: the relay that receives the message, or -1. */
function arrive(scene: ModelState, message: ModelMessage, tools: Tools, relay: number): ModelState {
  const { kind, who, id, record } = message
  const { between } = tools.setup
  if (between && relay >= 0) return arriveAtRelay(scene, message, relay, { ...tools, between })
  if (kind === 'request') {
    const { scene: after, reply } = handle(scene, message, tools.setup, tools.course)
    return answer(after, message, reply)
  }
  if (kind === 'event') return act(scene, who, tools, (driver) => driver.dispatch({ type: 'observed', record }))
  const { outcome, record: found, failed } = message.reply ?? {}
  const slot = scene.slots[who]
  if (failed && isProcess(slot)) countUnknown(slot, tools)
  if (failed) return act(scene, who, tools, fail, id)
  const hear = (driver: Driver, call: number, guard: ModelGuard | undefined) => {
    if (outcome) {
      guard?.answered(message.verb, outcome, driver.state)
      return driver.dispatch({ type: 'answer', call, outcome })
    }
    const { phase } = driver.state
    driver.dispatch({ type: 'found', call, record: found })
    if (phase === 'standby' && driver.state.phase === 'leading') tools.course.counts.unknownResolved += 1
  }
  return act(scene, who, tools, hear, id)
}

function answer(scene: ModelState, request: ModelMessage, reply: MoveReply): ModelState {
  const { who, id, verb, orphan, via } = request
  if (via !== undefined) {
    if (scene.relays[via] === undefined) return scene
    const message: ModelMessage = { ...request, kind: 'reply', reply, late: false, ageTicks: 0 }
    return { ...scene, messages: [...scene.messages, message] }
  }
  if (orphan) return scene
  const message: ModelMessage = { kind: 'reply', who, id, verb, reply, orphan: false, late: false, ageTicks: 0 }
  return { ...scene, messages: [...scene.messages, message] }
}

type MoveReply = NonNullable<ModelMessage['reply']>

const failure = new TenureError('BACKEND_UNAVAILABLE', 'The call failed.', { retryable: true })

function fail(driver: Driver, call: number): void {
  driver.dispatch({ type: 'failed', call, error: failure })
}

function countUnknown({ state }: ModelProcess, { course }: Tools): void {
  if (state.flight?.verb === 'acquire') course.counts.unknownOutcomes += 1
}

/** Loses a message. A relay that gets no answer asks again later. */
function lose(scene: ModelState, index: number, message: ModelMessage): ModelState {
  const next = without(scene, index)
  const isAskedAgain = message.via !== undefined && !message.orphan
  return isAskedAgain ? { ...next, messages: [...next.messages, asked(message)] } : next
}

function without(scene: ModelState, index: number): ModelState {
  return { ...scene, messages: scene.messages.toSpliced(index, 1) }
}

function withSlot(scene: ModelState, who: number, slot: ModelState['slots'][number]): ModelState {
  return { ...scene, slots: scene.slots.with(who, slot) }
}

function describe({ kind, who, verb, record, reply, via }: ModelMessage, setup: Setup): string {
  const name = via === undefined ? nameIn(setup, who) : `relay ${via + 1} for ${nameIn(setup, who)}`
  if (kind === 'request') return `${name}'s ${verb}`
  if (kind === 'event')
    return `the event to ${name} of ${record ? `version ${record.version}, term ${record.term}` : 'no record'}`
  const outcome = reply?.failed ? 'failure' : reply?.outcome?.ok === false ? 'refusal' : 'answer'
  return `the ${outcome} to ${name}'s ${verb}`
}
