/** What the processes of the model do: the real rules of members and coordinators, and a driver that is as simple as possible. */
import type { Assignment, OwnershipReport, ShardState } from '../../../src/shards/assignment.ts'
import type { BalancedMember, Changes } from '../../../src/shards/balance.ts'
import {
  coordinatorStep,
  newCoordinator,
  type CoordinatorInput,
  type CoordinatorSettings,
  type CoordinatorState,
} from '../../../src/shards/coordinator.ts'
import {
  mayTakeSeat,
  memberStep,
  reportOf,
  type MemberInput,
  type MemberState,
} from '../../../src/shards/shard-member.ts'
import type { SeatRecord, SeatView } from '../../../src/shards/seats.ts'
import { claimFor } from './store.ts'
import {
  believes,
  settingsOf,
  type ModelAnswer,
  type ModelCall,
  type ModelCoordinator,
  type ModelElection,
  type ModelProcess,
  type ModelRecord,
  type ShardScene,
  type ShardSetup,
} from './scene.ts'

/** Returns the calls that a running process has to make now. All of them are made before time passes. */
export function dueCalls(scene: ShardScene, who: number, setup: ShardSetup): readonly ModelCall[] {
  const process = scene.processes[who] as ModelProcess
  const { member, coordinator, done, seatTerm: term, seatVersion: version, afterTerm } = process
  const calls: ModelCall[] = []
  const isDue = (verb: ModelCall['verb']) => !done.includes(verb)
  const id = member.member
  if (id && process.mustRelease) calls.push({ verb: 'release', ...id, term, version })
  else if (id) {
    // A read that shows what was seen changes nothing.
    const shown = scene.group.record?.checkpoint
    if (isDue('read') && shown && !isSameAssignment(shown as Assignment, member.seen)) {
      calls.push({ verb: 'read', attempt: id.attempt })
    }
    const report = reportOf(member) ?? 0
    if (isDue('renew') && (process.sentTicks > 0 || mustReport(scene, member, report))) {
      calls.push({ verb: 'renew', report, ...id, term, version })
    }
  } else if (mayTakeSeat(member) && isDue('take-seat')) {
    const seat = scene.seats.findIndex((one) => claimFor(one, 0, setup))
    const claim = scene.seats[seat] && claimFor(scene.seats[seat], 0, setup)
    if (claim) calls.push({ verb: 'take-seat', seat, attempt: `#${scene.names + 1}`, ...claim })
  }
  if (coordinator === 0) {
    const claim = isDue('take-group') ? claimFor(scene.group, afterTerm, setup) : undefined
    if (claim) calls.push({ verb: 'take-group', attempt: `#${scene.names + 1}`, ...claim })
    return calls
  }
  const { state, round } = coordinator
  calls.push(...coordinator.calls)
  if (isDue('read-seat')) calls.push({ verb: 'read-seat', seat: round.length })
  const isCurrent = scene.group.record?.version === coordinator.version && scene.group.ageTicks === 0
  if (state.pending || (isDue('write') && !isCurrent)) {
    const of = { attempt: state.lineage, term: state.term, version: coordinator.version }
    if (!(state.pending && done.includes('no-answer')))
      calls.push({ verb: 'write', assignment: state.pending ?? 0, ...of })
  }
  return calls
}

/** One coordinator never writes two assignments of one epoch. */
function isSameAssignment(one: Assignment, other: Assignment | undefined): boolean {
  return one.epoch === other?.epoch && one.lineage === other.lineage
}

function isSameReport(one: OwnershipReport, other: OwnershipReport): boolean {
  return (
    one.attempt === other.attempt &&
    one.lineage === other.lineage &&
    one.seen === other.seen &&
    one.running.length === other.running.length &&
    one.leaving === other.leaving &&
    one.left === other.left
  )
}

function mustReport(
  scene: ShardScene,
  { member, seen, confirmedEpoch }: MemberState,
  report: OwnershipReport | 0,
): boolean {
  if (report === 0 || !member || !seen) return false
  if (confirmedEpoch < seen.epoch) return true
  const shown = scene.seats[member.seat]?.record
  if (shown?.attempt !== member.attempt) return false
  return shown.checkpoint === 0 || !isSameReport(shown.checkpoint as OwnershipReport, report)
}

/** Takes the answer to a call that was sent `ticks` ago, or undefined if there is none. */
export function taken(
  scene: ShardScene,
  before: ModelProcess,
  call: ModelCall,
  answer: ModelAnswer | undefined,
  ticks: number,
  setup: ShardSetup,
): ModelProcess {
  const isRound = call.verb === 'read-seat'
  const once =
    isRound && before.coordinator !== 0 && before.coordinator.round.length + 1 < setup.seats ? [] : [call.verb]
  const process = { ...before, done: [...new Set([...before.done, ...once])].toSorted() }
  if (call.verb === 'read') {
    if (!answer) return process
    const assignment =
      answer.record === 0 || answer.record.checkpoint === 0 ? undefined : (answer.record.checkpoint as Assignment)
    return memberTakes(process, { type: 'read', attempt: call.attempt, assignment }, setup)
  }
  if (call.verb === 'take-seat') {
    if (!answer?.ok || answer.record === 0 || ticks >= setup.leaseTicks || !mayTakeSeat(process.member)) return process
    const { attempt, term, version } = answer.record
    const won = {
      ...process,
      seatTerm: term,
      seatVersion: version,
      sentTicks: ticks,
      mustRelease: false,
      done: process.done.filter((verb) => verb !== 'read' && verb !== 'renew'),
    }
    return memberTakes(won, { type: 'seat-won', member: { seat: call.seat, attempt } }, setup)
  }
  if (call.verb === 'renew') return renewed(process, call, answer, ticks, setup)
  if (call.verb === 'release') {
    if (!answer) return process
    if (!answer.ok && isOwn(answer, call)) return { ...process, seatVersion: (answer.record as ModelRecord).version }
    return memberTakes({ ...process, mustRelease: false }, { type: 'seat-lost' }, setup)
  }
  if (call.verb === 'take-group') {
    if (!answer?.ok || answer.record === 0 || ticks >= setup.leaseTicks || process.coordinator !== 0) return process
    const { attempt, term, version, checkpoint } = answer.record
    const assignment = checkpoint === 0 ? undefined : (checkpoint as Assignment)
    const seats = setup.observesEarly ? scene.seats.map((seat) => bestView(seat, setup)) : []
    const state = newCoordinator(coordinatorSettings(setup), { lineage: attempt, term, assignment, seats, nowMs: 0 })
    if (typeof state === 'string') throw new Error(`the settings differ in ${state}`)
    return {
      ...process,
      afterTerm: 0,
      coordinator: { state: aged(state, 0, setup), version, round: [], roundSentMs: 0, calls: [] },
    }
  }
  return coordinates(scene, process, call, answer, setup)
}

function renewed(
  process: ModelProcess,
  call: ModelCall & { verb: 'renew' },
  answer: ModelAnswer | undefined,
  ticks: number,
  setup: ShardSetup,
): ModelProcess {
  if (!answer || process.member.member?.attempt !== call.attempt) return process
  // A refusal that shows its own grant: an earlier renewal was applied. It extends nothing.
  if (!answer.ok && isOwn(answer, call))
    return {
      ...process,
      seatVersion: (answer.record as ModelRecord).version,
      done: process.done.filter((verb) => verb !== 'renew'),
    }
  if (!answer.ok || ticks >= setup.leaseTicks) return memberTakes(process, { type: 'seat-lost' }, setup)
  const extended = {
    ...process,
    seatVersion: (answer.record as ModelRecord).version,
    sentTicks: Math.min(ticks, process.sentTicks),
  }
  return call.report === 0 ? extended : memberTakes(extended, { type: 'reported', report: call.report }, setup)
}

function isOwn({ record }: ModelAnswer, { attempt }: { readonly attempt: string }): boolean {
  return record !== 0 && record.attempt === attempt && !record.released
}

/** Gives an input to the rules of members. */
export function memberTakes(process: ModelProcess, input: MemberInput, setup: ShardSetup): ModelProcess {
  const { state, effects } = memberStep(process.member, input, believes(process, setup))
  const isUrgent = effects.some((effect) => effect.do === 'report' && effect.isUrgent)
  const mustRelease =
    state.member !== undefined && (process.mustRelease || effects.some((effect) => effect.do === 'release-seat'))
  return {
    ...process,
    member: state,
    mustRelease,
    done: isUrgent ? process.done.filter((verb) => verb !== 'renew') : process.done,
  }
}

function coordinates(
  scene: ShardScene,
  process: ModelProcess,
  call: ModelCall,
  answer: ModelAnswer | undefined,
  setup: ShardSetup,
): ModelProcess {
  const { coordinator } = process
  if (coordinator === 0) return process
  if (call.verb === 'read-seat') {
    // A failed read starts the round again.
    if (!answer) return { ...process, coordinator: { ...coordinator, round: [], roundSentMs: 0 } }
    const roundSentMs = coordinator.round.length === 0 ? 0 : coordinator.roundSentMs
    const round = [...coordinator.round, answer.record === 0 ? (0 as const) : seatRecord(answer.record, setup)]
    if (round.length < setup.seats) return { ...process, coordinator: { ...coordinator, round, roundSentMs } }
    const records = round.map((record) => (record === 0 ? undefined : record))
    const reset = { ...coordinator, round: [], roundSentMs: 0 }
    return coordinatorTakes(
      scene,
      { ...process, coordinator: reset },
      { type: 'seats', sentAtMs: roundSentMs, records, nowMs: 0 },
      setup,
    )
  }
  if (call.verb === 'write') {
    if (call.attempt !== coordinator.state.lineage) return process
    if (!answer) return { ...process, done: [...process.done, 'no-answer'].toSorted() }
    if (!answer.ok && isOwn(answer, call)) {
      const adopted = { ...coordinator, version: (answer.record as ModelRecord).version }
      return {
        ...process,
        coordinator: adopted,
        done: process.done.filter((verb) => verb !== 'write' && verb !== 'no-answer'),
      }
    }
    if (!answer.ok) return { ...process, coordinator: 0 }
    const held = { ...process, coordinator: { ...coordinator, version: (answer.record as ModelRecord).version } }
    return call.assignment === 0 ? held : coordinatorTakes(scene, held, { type: 'written', nowMs: 0 }, setup)
  }
  const rest = {
    ...process,
    coordinator: {
      ...coordinator,
      calls: coordinator.calls.filter((one) => one !== call && JSON.stringify(one) !== JSON.stringify(call)),
    },
  }
  if (call.verb !== 'clean-seat') return rest
  const granted =
    answer?.ok && answer.record !== 0
      ? {
          ...answer.record,
          election: '',
          holder: '',
          leaseDurationMs: setup.leaseTicks,
          acquiredAt: 0,
          renewedAt: 0,
          metadata: {},
          checkpoint: '',
        }
      : undefined
  // Without an answer the driver gives up, and the next read of the seats shows the outcome.
  return coordinatorTakes(scene, rest, { type: 'seat-answer', attempt: call.attempt, granted, nowMs: 0 }, setup)
}

/** Returns what the best observer has seen of a seat: each version from the moment at which it was written. */
function bestView({ record, ageTicks }: ModelElection, setup: ShardSetup): SeatView | undefined {
  return record && { ...seatRecord(record, setup), firstSeenAtMs: -ageTicks, presentSinceMs: -setup.leaseTicks }
}

function seatRecord(
  { attempt, term, released, isCleaning, checkpoint, version }: ModelRecord,
  { leaseTicks }: ShardSetup,
): SeatRecord {
  const report = checkpoint === 0 ? undefined : (checkpoint as OwnershipReport)
  return { attempt, term, released, isMember: !isCleaning, version, leaseDurationMs: leaseTicks, report }
}

/** Gives an input to the rules of the coordinator. */
export function coordinatorTakes(
  scene: ShardScene,
  process: ModelProcess,
  input: CoordinatorInput,
  setup: ShardSetup,
): ModelProcess {
  const { coordinator } = process
  if (coordinator === 0) return process
  const tools = { balance: balanceFor(scene.preferred), sizeOf: () => 0 }
  const { state, effects } = coordinatorStep(coordinator.state, input, tools)
  const calls = [...coordinator.calls]
  for (const effect of effects) {
    if (effect.do === 'acquire-seat') {
      const { attempt, afterTerm, expiredVersion = 0 } = effect.claim
      calls.push({ verb: 'clean-seat', seat: effect.seat, attempt, afterTerm, expired: expiredVersion })
    }
    if (effect.do === 'release-seat') {
      const { attempt, term, version } = effect.record
      calls.push({ verb: 'free-seat', seat: effect.seat, attempt, term, version })
    }
    if (effect.do === 'step-down')
      return {
        ...process,
        coordinator: 0,
        afterTerm: effect.afterTerm,
        done: process.done.filter((verb) => verb !== 'take-group'),
      }
  }
  return { ...process, coordinator: { ...coordinator, state: aged(state, 0, setup), calls } }
}

/** Balancing that moves the shard to any preferred seat. Safety must not depend on how shards are balanced. */
function balanceFor(preferred: number) {
  return (shards: readonly ShardState[], living: readonly BalancedMember[]): Changes => {
    const [shard] = shards
    const able = living.filter(({ isLeaving }) => !isLeaving)
    const best = able.find(({ member }) => member.seat === preferred) ?? able[0]
    const grants = new Map(best && shard?.state === 'free' ? [[0, best.member]] : [])
    if (shard?.state !== 'owned') return { grants, revocations: [] }
    const owner = living.find(({ member }) => member.attempt === shard.owner.attempt)
    const isMoved = best?.member.seat === preferred && best.member.attempt !== shard.owner.attempt
    return { grants, revocations: owner?.isLeaving || isMoved ? [0] : [] }
  }
}

export function coordinatorSettings(setup: ShardSetup): CoordinatorSettings {
  const { seats, keepsTerms } = setup
  return {
    shards: settingsOf(setup),
    maxMembers: seats,
    seatLimit: seats,
    maxMoves: 1,
    retryIntervalMs: 0,
    writeIntervalMs: 0,
    keepsTerms,
    checkpointLimitBytes: 1,
  }
}

/** Returns a coordinator's state as it is `ticks` later. A time that is long past is as good as any other. */
export function aged(state: CoordinatorState, ticks: number, { leaseTicks }: ShardSetup): CoordinatorState {
  const later = (ms: number) => Math.max(ms - ticks, -leaseTicks)
  const { recovery } = state
  return {
    ...state,
    electedAtMs: -leaseTicks,
    wroteAtMs: -leaseTicks,
    readAtMs: later(state.readAtMs),
    seats: state.seats.map(
      (view) => view && { ...view, firstSeenAtMs: later(view.firstSeenAtMs), presentSinceMs: -leaseTicks },
    ),
    waits: state.waits.map((wait) => ({ ...wait, sinceMs: later(wait.sinceMs) })),
    recovery: recovery && { ...recovery, sinceMs: later(recovery.sinceMs) },
  }
}

export function agedCoordinator(coordinator: ModelCoordinator, ticks: number, setup: ShardSetup): ModelCoordinator {
  return {
    ...coordinator,
    state: aged(coordinator.state, ticks, setup),
    roundSentMs: Math.max(coordinator.roundSentMs - ticks, -setup.leaseTicks),
  }
}
