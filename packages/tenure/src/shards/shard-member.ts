/**
 * The rules for a member of a group of shards: (state, input) to (state, effects). No I/O and no clock, so that the
 * explorer runs the same code as a process. `coordinator.ts` has the rules for the other side.
 *
 * What is *not* guaranteed: that work has ended when its member is over. A process whose lease has expired loses its
 * shards by the clock, and work that ignores its signal keeps running beside the new owner. Only fencing with the shard's
 * token prevents what such work writes. Nor is it guaranteed that a shard always has an owner.
 *
 * Why a shard never has two owners (S1). Suppose m owned a shard, and n is granted it. The coordinator grants only free
 * shards, so one of these was true before:
 *
 * - m reported an epoch at or above the revocation, without the shard among those that run. m had aborted its work
 *   (rule 4), the work had settled, and under this attempt m never again acts on an older assignment (rule 1).
 * - m reported `left`. From then on it owns nothing, and nothing is started (rule 5).
 * - m was over. Its seat was granted to the coordinator after its belief had ended (I2), or a whole lease has passed
 *   since its record was seen replaced. m owns shards only while it believes in its seat, by the clock (rule 2).
 *
 * A process that wins a seat again is another member: it starts empty, and takes the seat only after its earlier work
 * has settled (rule 1). A former coordinator cannot write, because the store refuses its renewals. A member with a stale
 * view only delays its report.
 *
 * Why tokens rise strictly (S2). A token is the epoch of its grant, epochs rise within a term, and terms rise. Where a
 * store forgets terms with a deleted record, the reports of the members remember them (rule 2, and 5(b) of the
 * coordinator).
 */
import { termOf, type Assignment, type MemberId, type OwnershipReport, type ShardState } from './assignment.ts'

/** Work on one shard that has not settled. */
export interface ShardWork {
  readonly shard: number
  readonly token: number
  readonly isAborted: boolean
}

/** The state of one process as a member. */
export interface MemberState {
  /** Whether the store keeps the terms of deleted records. */
  readonly keepsTerms: boolean
  /** The seat that was won, under the attempt that won it. Undefined while the process has none. */
  readonly member: MemberId | undefined
  /** The newest assignment that was seen under this attempt. */
  readonly seen: Assignment | undefined
  /** The highest epoch in a report of this attempt that the store has confirmed. 0 if there is none. */
  readonly confirmedEpoch: number
  /** Outlives the attempt: work may settle long after its seat was lost. */
  readonly work: readonly ShardWork[]
  /**
   * `leaving`: it hands its shards over. `closing`: it gives up all shards and waits for its work. `left`: it has begun
   * to report that it left.
   */
  readonly phase: 'joined' | 'leaving' | 'closing' | 'left'
}

/** What happens to a member. */
export type MemberInput =
  /** The acquire of a seat was granted. */
  | { readonly type: 'seat-won'; readonly member: MemberId }
  /** The leadership of the seat has ended, for whatever reason. */
  | { readonly type: 'seat-lost' }
  /**
   * The answer to the process's own linearizable read of the group's record, and the attempt under which that read was
   * sent. A watch event is no such answer: it may belong to a deleted record, so it is only a reason to read.
   */
  | { readonly type: 'read'; readonly attempt: string; readonly assignment: Assignment | undefined }
  /** The store has confirmed a renewal of the seat with this report. */
  | { readonly type: 'reported'; readonly report: OwnershipReport }
  | { readonly type: 'settled'; readonly shard: number }
  | { readonly type: 'leave' }
  /** Handing over takes too long, or there is nobody to hand over to. */
  | { readonly type: 'close' }

/** What the driver must do, in this order. */
export type MemberEffect =
  | { readonly do: 'abort'; readonly shard: number; readonly token: number }
  | { readonly do: 'start'; readonly shard: number; readonly token: number }
  /** Put the report into the seat's checkpoint: at once if urgent, otherwise with the next renewal. */
  | { readonly do: 'report'; readonly report: OwnershipReport; readonly isUrgent: boolean }
  /** Nothing is left to do on this seat. */
  | { readonly do: 'release-seat' }

/** A state, and what follows from it. */
export interface MemberStep {
  readonly state: MemberState
  readonly effects: readonly MemberEffect[]
}

/** Returns the state of a process that has no seat. */
export function newMember(keepsTerms: boolean): MemberState {
  return { keepsTerms, member: undefined, seen: undefined, confirmedEpoch: 0, work: [], phase: 'joined' }
}

/** Rule 1: a process whose work of an earlier attempt has not settled takes no seat. */
export function mayTakeSeat({ member, work }: MemberState): boolean {
  return member === undefined && work.length === 0
}

/**
 * Rule 2 (S1): returns the token with which a process owns a shard, or undefined. `believes` is what `isLeader()` of the
 * member's leadership says by the clock, at this moment. Nothing else grants a shard.
 */
export function ownedToken(state: MemberState, shard: number, believes: boolean): number | undefined {
  const { member, seen, keepsTerms, confirmedEpoch, phase } = state
  if (!believes || !member || phase === 'closing' || phase === 'left') return undefined
  const found = seen?.shards[shard]
  if (found?.state !== 'owned' || !isOwner(found, member)) return undefined
  // S2: where the store forgets terms, a later coordinator learns this term from the report.
  if (!keepsTerms && termOf(confirmedEpoch) < termOf(found.token)) return undefined
  return found.token
}

/** The assignment names seat and attempt. The same process under another attempt is another member. */
function isOwner({ owner }: { readonly owner: MemberId }, { seat, attempt }: MemberId): boolean {
  return owner.seat === seat && owner.attempt === attempt
}

/**
 * Rule 4: what the member reports. Undefined before it has seen an assignment, because its seat may still show the report
 * of an earlier member, which a recovery needs (5(b) of the coordinator).
 */
export function reportOf({ member, seen, work, phase }: MemberState): OwnershipReport | undefined {
  if (!member || !seen) return undefined
  const running = [...new Set(work.map(({ shard }) => shard))].toSorted((one, other) => one - other)
  const { lineage, epoch } = seen
  return { attempt: member.attempt, lineage, seen: epoch, running, leaving: phase !== 'joined', left: phase === 'left' }
}

/** Takes one input. `believes` is what `isLeader()` of the member's leadership says by the clock, at this moment. */
export function memberStep(before: MemberState, input: MemberInput, believes: boolean): MemberStep {
  const after = taken(before, input)
  const aborted = abortLost(after)
  const started = startOwned(aborted, believes)
  const state = begunToLeave(started)
  const effects: MemberEffect[] = []
  // Rule 4 (S1): every shard that the new assignment does not give to this member is aborted before it is reported.
  for (const { shard, token, isAborted } of state.work) {
    const was = before.work.find((one) => one.shard === shard && one.token === token)
    if (isAborted && !was?.isAborted) effects.push({ do: 'abort', shard, token })
    if (!was) effects.push({ do: 'start', shard, token })
  }
  const report = reportOf(state)
  if (report && !isSameReport(report, reportOf(before))) {
    effects.push({ do: 'report', report, isUrgent: isUrgent(before, state) })
  }
  const hasLeft = input.type === 'reported' && input.report.left && input.report.attempt === state.member?.attempt
  // Without an assignment there is nothing to report, and nothing was ever owned.
  const hadNothing = state.phase === 'left' && !state.seen && before.phase !== 'left'
  if (hasLeft || (hadNothing && state.member)) effects.push({ do: 'release-seat' })
  return { state, effects }
}

function taken(state: MemberState, input: MemberInput): MemberState {
  if (input.type === 'seat-won') {
    // Rule 1 (S1): what an earlier attempt has seen means nothing under this one.
    return { ...state, member: input.member, seen: undefined, confirmedEpoch: 0, phase: 'joined' }
  }
  if (input.type === 'seat-lost') return { ...state, member: undefined, seen: undefined, confirmedEpoch: 0 }
  if (input.type === 'read') return acted(state, input)
  if (input.type === 'reported') {
    if (input.report.attempt !== state.member?.attempt) return state
    return { ...state, confirmedEpoch: Math.max(state.confirmedEpoch, input.report.seen) }
  }
  if (input.type === 'settled') return { ...state, work: state.work.filter(({ shard }) => shard !== input.shard) }
  if (input.type === 'leave') return state.phase === 'joined' ? { ...state, phase: 'leaving' } : state
  return state.phase === 'left' ? state : { ...state, phase: 'closing' }
}

/** Rule 1 (S1): acts only on a read of this attempt, and only on an epoch above the highest that it has seen. */
function acted(state: MemberState, { attempt, assignment }: MemberInput & { type: 'read' }): MemberState {
  if (!assignment || attempt !== state.member?.attempt) return state
  if (assignment.epoch <= (state.seen?.epoch ?? 0)) return state
  return { ...state, seen: assignment }
}

/** Rule 3 (S1): the signal of work aborts when its shard is no longer owned, or has another token. */
function abortLost(state: MemberState): MemberState {
  const isKept = ({ shard, token }: ShardWork) => assignedToken(state, shard) === token
  if (state.work.every((work) => work.isAborted || isKept(work))) return state
  return { ...state, work: state.work.map((work) => (isKept(work) ? work : { ...work, isAborted: true })) }
}

/**
 * The token of a shard by the assignment alone. Belief is left out: the leadership's own signal aborts work when that
 * ends, and `seat-lost` follows.
 */
function assignedToken(state: MemberState, shard: number): number | undefined {
  return ownedToken({ ...state, keepsTerms: true }, shard, true)
}

/** Rule 3: starts work on every owned shard, but on none whose earlier work has not settled, whatever the token. */
function startOwned(state: MemberState, believes: boolean): MemberState {
  const work = [...state.work]
  for (const shard of state.seen?.shards.keys() ?? []) {
    const token = ownedToken(state, shard, believes)
    if (token === undefined || state.work.some((one) => one.shard === shard)) continue
    work.push({ shard, token, isAborted: false })
  }
  return work.length === state.work.length ? state : { ...state, work }
}

/**
 * Rule 5 (S1): a member begins to report `left` only when it owns nothing by the newest assignment that it has seen, or
 * has given up everything, and when nothing runs. Work that does not settle keeps it from leaving, and its seat expires.
 */
function begunToLeave(state: MemberState): MemberState {
  const { phase, work, seen, member } = state
  if (work.length > 0 || phase === 'joined' || phase === 'left') return state
  const isOwn = (shard: ShardState) => shard.state === 'owned' && member !== undefined && isOwner(shard, member)
  if (phase === 'leaving' && seen?.shards.some(isOwn)) return state
  return { ...state, phase: 'left' }
}

function isSameReport(one: OwnershipReport, other: OwnershipReport | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** Rule 4: reports at once if the coordinator waits for it: something was taken away, has settled, or is handed over. */
function isUrgent(before: MemberState, after: MemberState): boolean {
  if (before.phase !== after.phase || after.work.length < before.work.length) return true
  if (!after.keepsTerms && termOf(after.confirmedEpoch) < termOf(after.seen?.epoch ?? 0)) return true
  const { member } = after
  const isTaken = (shard: ShardState) =>
    shard.state === 'unknown' || (shard.state === 'revoked' && member && isOwner(shard, member))
  return before.seen !== after.seen && (after.seen?.shards.some(isTaken) ?? false)
}
