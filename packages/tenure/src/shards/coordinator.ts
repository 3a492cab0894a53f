/**
 * The rules for the coordinator of a group of shards: (state, input) to (state, effects). No I/O and no clock. A
 * process has such a state from the grant of the group's lease until that leadership ends. `shard-member.ts` opens with
 * what is not guaranteed, and with the argument why a shard never has two owners.
 *
 * The coordinator needs no belief in its own leadership. All that it decides becomes true only by writing the
 * assignment, which is a renewal of its lease: the store refuses it unless holder, attempt, term, and version still
 * match. The acquire of a seat is harmless in any process.
 */
import type { AcquireClaim, LeaseRecord } from '../engine/lease-store.ts'
import {
  changeOf,
  differingSetting,
  epochOf,
  lastChange,
  namedMembers,
  type Assignment,
  type MemberId,
  type ShardSettings,
  type ShardState,
} from './assignment.ts'
import type { BalancedMember, Changes } from './balance.ts'
import { beginRecovery, checkedSeats, type Recovery, recoveryConfirmed, recoveryDraft } from './recovery.ts'
import { hasLeft, isHeld, observed, overAfterWait, reportedBy, type SeatRound, type SeatView } from './seats.ts'

/** What stays constant for one coordinator. */
export interface CoordinatorSettings {
  readonly shards: ShardSettings
  /** The number of seats for this process. */
  readonly maxMembers: number
  /** The most seats that any process may use. A process with a larger `maxMembers` may hold a seat beyond those of this one. */
  readonly seatLimit: number
  /** The most shards in motion at once. */
  readonly maxMoves: number
  readonly retryIntervalMs: number
  /** The least time between two assignments: half a retry interval, or what the store can take. */
  readonly writeIntervalMs: number
  /** Whether the store keeps the terms of deleted records. */
  readonly keepsTerms: boolean
  /** The longest checkpoint that the store accepts. A longer one would end the leadership. */
  readonly checkpointLimitBytes: number
}

/** An acquire of a seat, sent to prove that its member is over. */
export interface CleaningAcquire {
  readonly member: MemberId
  /** The coordinator's own attempt. If the answer is lost, the next read shows whether it was granted. */
  readonly attempt: string
  readonly isAnswered: boolean
}

/** A member whose record was seen replaced or missing. `sinceMs` is when the reply of that read arrived. */
export interface Wait {
  readonly attempt: string
  readonly sinceMs: number
}

/** The state of one coordinator. */
export interface CoordinatorState {
  readonly settings: CoordinatorSettings
  /** The attempt and the term of its own lease. */
  readonly lineage: string
  readonly term: number
  readonly electedAtMs: number
  /** The newest assignment that the store has confirmed: the only one that the next is computed from. */
  readonly confirmed: Assignment
  /** A submitted assignment without an answer. Nothing follows from it, and no other is submitted. */
  readonly pending: Assignment | undefined
  readonly wroteAtMs: number
  /** When the reply of the last complete read of the seats arrived. */
  readonly readAtMs: number
  readonly seats: readonly (SeatView | undefined)[]
  readonly waits: readonly Wait[]
  readonly acquires: readonly CleaningAcquire[]
  /** The number of acquires sent, for their names. */
  readonly acquireCount: number
  /** The attempts of members that are over. */
  readonly over: readonly string[]
  readonly recovery: Recovery | undefined
}

/** What happens to a coordinator. */
export type CoordinatorInput = { readonly nowMs: number } & (
  | { readonly type: 'wake' }
  /** A complete read of the seats. A failed one is no input. */
  | ({ readonly type: 'seats' } & Omit<SeatRound, 'nowMs'>)
  /** The store has confirmed the pending assignment. */
  | { readonly type: 'written' }
  /** The store has answered the acquire of a seat. */
  | { readonly type: 'seat-answer'; readonly attempt: string; readonly granted: LeaseRecord | undefined }
)

/** What the driver must do. */
export type CoordinatorEffect =
  | { readonly do: 'write'; readonly assignment: Assignment }
  /** `isCleaning` goes into the metadata of the claim: such a seat has no living member. */
  | {
      readonly do: 'acquire-seat'
      readonly seat: number
      readonly claim: Pick<AcquireClaim, 'attempt' | 'afterTerm' | 'expiredVersion'>
    }
  | {
      readonly do: 'release-seat'
      readonly seat: number
      readonly record: Pick<LeaseRecord, 'attempt' | 'term' | 'version'>
    }
  /** Release the group's lease, and contend again at once, with at least this `afterTerm`. */
  | { readonly do: 'step-down'; readonly reason: string; readonly afterTerm: number }
  /** The assignment would be longer than the store accepts: no further member gets a shard. */
  | { readonly do: 'refuse-members' }

/** A state, and what follows from it. */
export interface CoordinatorStep {
  readonly state: CoordinatorState
  readonly effects: readonly CoordinatorEffect[]
}

/** The grant of the group's lease, with the assignment in the checkpoint that the acquire returned. */
export interface Elected {
  readonly lineage: string
  readonly term: number
  /** Undefined if the checkpoint is missing or unreadable. */
  readonly assignment: Assignment | undefined
  /**
   * What this process saw of the seats before it was elected. The wait for a version starts when the version is first
   * seen, so the seat of a crashed coordinator does not cost another lease.
   */
  readonly seats: readonly (SeatView | undefined)[]
  readonly nowMs: number
}

/** Returns the state of a new coordinator, or the setting in which the group differs from this process. */
export function newCoordinator(
  settings: CoordinatorSettings,
  { lineage, term, assignment, seats, nowMs }: Elected,
): CoordinatorState | keyof ShardSettings {
  const differing = assignment && differingSetting(assignment.settings, settings.shards)
  if (differing) return differing
  const free = Array.from({ length: settings.shards.shards }, (): ShardState => ({ state: 'free' }))
  const nothing: Assignment = { settings: settings.shards, epoch: 0, lineage: '', members: [], shards: free }
  // Rule 5: an assignment that is missing was never written only in the first term of a store that keeps terms.
  const isFirst = !assignment && term === 1 && settings.keepsTerms
  const isUncertain = assignment ? assignment.shards.some(({ state }) => state === 'unknown') : !isFirst
  return {
    settings,
    lineage,
    term,
    electedAtMs: nowMs,
    confirmed: assignment ?? nothing,
    pending: undefined,
    wroteAtMs: -Infinity,
    readAtMs: nowMs,
    seats,
    waits: [],
    acquires: [],
    acquireCount: 0,
    over: [],
    recovery: isUncertain ? beginRecovery() : undefined,
  }
}

/** What the coordinator is given. Safety depends on neither: the explorer balances in every possible way. */
export interface CoordinatorTools {
  /** `balance` of balance.ts. */
  balance(shards: readonly ShardState[], living: readonly BalancedMember[], maxMoves: number): Changes
  /** The length of an assignment as text. */
  sizeOf(assignment: Assignment): number
}

/** Takes one input. */
export function coordinatorStep(
  before: CoordinatorState,
  input: CoordinatorInput,
  tools: CoordinatorTools,
): CoordinatorStep {
  const { nowMs } = input
  const { leaseDurationMs } = before.settings.shards
  const effects: CoordinatorEffect[] = []
  let state = before
  if (input.type === 'seats') state = seatsRead(state, input, effects)
  if (input.type === 'written') state = written(state, nowMs)
  if (input.type === 'seat-answer') state = seatAnswered(state, input, effects)
  if (effects.some((effect) => effect.do === 'step-down')) return { state, effects }
  // Rule 6: a coordinator that cannot see the seats steps down.
  if (nowMs - state.readAtMs >= leaseDurationMs) {
    return {
      state,
      effects: [{ do: 'step-down', reason: 'the seats could not be read for one lease', afterTerm: state.term }],
    }
  }
  if (input.type === 'seats') state = cleanSeats(state, nowMs, effects)
  state = writeNext(state, nowMs, tools, effects)
  return { state, effects }
}

/**
 * Rule 6: how many seats a round must read after it has read `records`: those in use and the next two, and all seats of this
 * process at first and in a recovery. A member may hold a seat beyond those of this process and own shards (S1). As members
 * take the first free seat, the records before it exist, so a round that reads on behind the last record finds it.
 */
export function seatsToRead(
  { seats, confirmed, lineage, recovery, settings }: CoordinatorState,
  records: SeatRound['records'],
): number {
  const lastOf = (list: readonly unknown[]) => list.findLastIndex((one) => one !== undefined)
  const used = Math.max(lastOf(seats), lastOf(records), ...confirmed.members.map(({ seat }) => seat))
  const least = recovery || confirmed.lineage !== lineage ? settings.maxMembers : 0
  return Math.min(settings.seatLimit, Math.max(used + 3, least))
}

function seatsRead(before: CoordinatorState, input: SeatRound, effects: CoordinatorEffect[]): CoordinatorState {
  const { leaseDurationMs } = before.settings.shards
  const seats = observed(before.seats, input)
  let state: CoordinatorState = { ...before, seats, readAtMs: input.nowMs }
  for (const member of membersOfConcern(state)) {
    const record = input.records[member.seat]
    const own = state.acquires.find(({ attempt }) => attempt === record?.attempt)
    // Rule 3: the answer to its own acquire was lost, and this read shows that it was granted.
    if (own?.member.attempt === member.attempt) state = isOver(state, member)
    else {
      const { wait, isOver: waited } = overAfterWait(member, state.waits, input, leaseDurationMs)
      const others = state.waits.filter(({ attempt }) => attempt !== member.attempt)
      state = { ...state, waits: wait ? [...others, wait] : others }
      if (waited) state = isOver(state, member)
    }
  }
  for (const [seat, record] of input.records.entries()) {
    const isOwn = record && !record.released && state.acquires.some(({ attempt }) => attempt === record.attempt)
    if (isOwn) effects.push({ do: 'release-seat', seat, record })
  }
  state = { ...state, acquires: relevantAcquires(state, input) }
  // A recovery counts only reads of all seats: a seat that was not read may be taken.
  const isComplete = input.records.length >= seatsToRead(state, input.records)
  return state.recovery && isComplete ? checkedSeats(state, state.recovery, input, effects) : state
}

/** Forgets the acquires whose member is over, once their seat is released. Otherwise they would grow without end. */
function relevantAcquires(state: CoordinatorState, { records }: SeatRound): readonly CleaningAcquire[] {
  const concerned = new Set(membersOfConcern(state).map(({ attempt }) => attempt))
  return state.acquires.filter(({ member, attempt, isAnswered }) => {
    const record = records[member.seat]
    return !isAnswered || concerned.has(member.attempt) || (record?.attempt === attempt && !record.released)
  })
}

/** The members about which the coordinator must know whether they are over. */
function membersOfConcern({ confirmed, recovery, over }: CoordinatorState): readonly MemberId[] {
  const awaited = recovery ? recovery.awaited : namedMembers(confirmed.shards)
  return awaited.filter(({ attempt }) => !over.includes(attempt))
}

function isOver(state: CoordinatorState, { attempt }: MemberId): CoordinatorState {
  return {
    ...state,
    over: [...state.over, attempt],
    waits: state.waits.filter((wait) => wait.attempt !== attempt),
  }
}

/**
 * Rule 3 (S1): to prove that a member is over, acquires its seat. It does so when its last read showed exactly this
 * member's attempt, either released or in a version observed for the whole lease. `afterTerm` makes the store refuse the
 * claim if the seat was granted to anybody else since. The store grants it only after the member's belief has ended
 * (I2), even if an administrator has released the record: `released` is only a reason to try at once.
 */
function cleanSeats(before: CoordinatorState, nowMs: number, effects: CoordinatorEffect[]): CoordinatorState {
  let state = before
  for (const member of membersOfConcern(before)) {
    const view = state.seats[member.seat]
    if (view?.attempt !== member.attempt) continue
    const leaseDurationMs = Math.max(view.leaseDurationMs, state.settings.shards.leaseDurationMs)
    const isExpired = nowMs - view.firstSeenAtMs >= leaseDurationMs
    const isInFlight = state.acquires.some((one) => one.member.attempt === member.attempt && !one.isAnswered)
    if (isInFlight || !(view.released || isExpired)) continue
    const acquireCount = state.acquireCount + 1
    // Unique forever, because the lineage is.
    const attempt = `${state.lineage}/${acquireCount}`
    const claim = { attempt, afterTerm: view.term, ...(!view.released && { expiredVersion: view.version }) }
    effects.push({ do: 'acquire-seat', seat: member.seat, claim })
    const kept = state.acquires.filter((one) => !one.isAnswered || one.member.attempt !== member.attempt)
    state = { ...state, acquireCount, acquires: [...kept, { member, attempt, isAnswered: false }] }
  }
  return state
}

/** Rule 3: a granted acquire proves that the member is over. The seat is released, and needs no belief. */
function seatAnswered(
  state: CoordinatorState,
  { attempt, granted }: { readonly attempt: string; readonly granted: LeaseRecord | undefined },
  effects: CoordinatorEffect[],
): CoordinatorState {
  const acquire = state.acquires.find((one) => one.attempt === attempt)
  if (!acquire) return state
  const acquires = state.acquires.map((one) => (one === acquire ? { ...one, isAnswered: true } : one))
  if (granted?.attempt !== attempt) return { ...state, acquires }
  effects.push({ do: 'release-seat', seat: acquire.member.seat, record: granted })
  return isOver({ ...state, acquires }, acquire.member)
}

/** Rule 1 of members: only a confirmed assignment counts. */
function written(state: CoordinatorState, nowMs: number): CoordinatorState {
  if (!state.pending) return state
  const confirmed = { ...state, confirmed: state.pending, pending: undefined }
  const named = new Set(confirmed.confirmed.members.map(({ attempt }) => attempt))
  const isNamed = ({ attempt }: { readonly attempt: string }) => named.has(attempt)
  if (confirmed.recovery) return recoveryConfirmed(confirmed, confirmed.recovery, nowMs)
  // An attempt that no shard names never matters again.
  return {
    ...confirmed,
    over: confirmed.over.filter((attempt) => named.has(attempt)),
    waits: confirmed.waits.filter(isNamed),
  }
}

/** Rule 6: at most one assignment per interval, and none while another has no answer. */
function writeNext(
  state: CoordinatorState,
  nowMs: number,
  tools: CoordinatorTools,
  effects: CoordinatorEffect[],
): CoordinatorState {
  const { settings, confirmed, term, lineage } = state
  if (state.pending || nowMs - state.wroteAtMs < settings.writeIntervalMs) return state
  const isFirst = confirmed.lineage !== lineage
  const n = isFirst ? 0 : changeOf(confirmed.epoch) + 1
  const epoch = epochOf(term, n)
  const draft = (living: readonly BalancedMember[], maxMoves: number): Assignment => {
    const shards = state.recovery
      ? recoveryDraft(state, state.recovery)
      : nextShards(state, { living, maxMoves }, epoch, nowMs, tools)
    return { settings: settings.shards, epoch, lineage, members: namedMembers(shards), shards }
  }
  const fits = (one: Assignment) => tools.sizeOf(one) <= settings.checkpointLimitBytes
  const living = livingMembers(state, nowMs)
  let assignment: Assignment | undefined = draft(living, settings.maxMoves)
  if (!fits(assignment)) {
    effects.push({ do: 'refuse-members' })
    const named = new Set(confirmed.members.map(({ attempt }) => attempt))
    const isNamed = ({ member }: BalancedMember) => named.has(member.attempt)
    // Members that own shards come first.
    const inOrder = [...living.filter(isNamed), ...living.filter((one) => !isNamed(one))]
    const largest = (maxMoves: number) => largestFit(inOrder, (some) => draft(some, maxMoves), fits)
    // A revocation makes the text longer too. The shards of members that are over are granted first (S3).
    assignment = largest(settings.maxMoves) ?? largest(0)
  }
  if (!assignment) return state
  // The first assignment of a coordinator is written even if nothing changes, so that members report its lineage.
  const isChanged = isFirst || JSON.stringify(assignment.shards) !== JSON.stringify(confirmed.shards)
  if (!isChanged || (state.recovery && state.recovery.phase !== 'write' && state.recovery.phase !== 'free'))
    return state
  if (n > lastChange) {
    effects.push({ do: 'step-down', reason: 'all epochs of this term are used', afterTerm: term })
    return state
  }
  effects.push({ do: 'write', assignment })
  return { ...state, pending: assignment, wroteAtMs: nowMs }
}

/** Returns the draft for as many of the members as fit, or undefined if none does. */
function largestFit(
  members: readonly BalancedMember[],
  draft: (some: readonly BalancedMember[]) => Assignment,
  fits: (one: Assignment) => boolean,
): Assignment | undefined {
  let [low, high] = [0, members.length]
  let best: Assignment | undefined
  while (low <= high) {
    const count = Math.floor((low + high) / 2)
    const one = draft(members.slice(0, count))
    if (fits(one)) [best, low] = [one, count + 1]
    else high = count - 1
  }
  return best
}

/** Rules 1, 2, and 4: returns the shards of the next assignment. */
function nextShards(
  state: CoordinatorState,
  { living, maxMoves }: { readonly living: readonly BalancedMember[]; readonly maxMoves: number },
  epoch: number,
  nowMs: number,
  tools: CoordinatorTools,
): readonly ShardState[] {
  const { confirmed, lineage, settings, electedAtMs } = state
  const freed = confirmed.shards.map((shard, number): ShardState =>
    isFreed(state, shard, number) ? { state: 'free' } : shard,
  )
  // At a cold start, the first process would take everything.
  const isCold = freed.every((shard) => shard.state === 'free') && confirmed.members.length === 0
  const isWaiting = isCold && nowMs - electedAtMs < 2 * settings.retryIntervalMs
  const { grants, revocations } = tools.balance(freed, isWaiting ? [] : living, maxMoves)
  return freed.map((shard, number): ShardState => {
    const owner = grants.get(number)
    // Rule 4 (S1, S2): only a free shard is granted, and its token is the new epoch.
    if (shard.state === 'free' && owner) return { state: 'owned', owner, token: epoch }
    // Rule 1: notes the epoch, so that a later coordinator accepts reports that were already given.
    if (shard.state === 'owned' && revocations.includes(number))
      return { state: 'revoked', owner: shard.owner, since: epoch, lineage }
    return shard
  })
}

/** Rule 2 (S1): whether the owner of a shard can never act on it again under the assignments so far. */
function isFreed(state: CoordinatorState, shard: ShardState, number: number): boolean {
  if (shard.state === 'free' || shard.state === 'unknown') return shard.state === 'free'
  if (state.over.includes(shard.owner.attempt)) return true
  if (hasLeft(state.seats, shard.owner)) return true
  const report = reportedBy(state.seats, shard.owner)
  if (shard.state !== 'revoked' || !report) return false
  const isKnown = report.lineage === state.lineage || report.lineage === shard.lineage
  return isKnown && report.seen >= shard.since && !report.running.includes(number)
}

/**
 * The members that can own shards: their seats are held, were renewed within the last lease, and they have not left. They
 * must have reported, because a client that is not a member may hold a seat too, and would never work on a shard.
 */
export function livingMembers({ seats, over, settings }: CoordinatorState, nowMs: number): BalancedMember[] {
  const { leaseDurationMs } = settings.shards
  return seats.flatMap((view, seat): BalancedMember[] => {
    if (!view || !isHeld(view) || over.includes(view.attempt)) return []
    if (nowMs - view.firstSeenAtMs >= leaseDurationMs) return []
    const member = { seat, attempt: view.attempt }
    const report = reportedBy(seats, member)
    if (!report || report.left) return []
    return [{ member, isLeaving: report.leaving, isEstablished: nowMs - view.presentSinceMs >= leaseDurationMs }]
  })
}

/** Returns when the coordinator must be woken next, at the latest. */
export function coordinatorWakeAtMs({ settings, readAtMs }: CoordinatorState): number {
  return readAtMs + settings.retryIntervalMs
}
