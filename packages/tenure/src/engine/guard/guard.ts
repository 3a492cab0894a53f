/**
 * The decisions of a process's guard: a function from a state and an input to a state and effects. It has no I/O and no
 * clock, so that the simulator and the explorer run the same code as the guard process.
 *
 * A guard holds the other end of a pipe to one process. Before that process sends an acquire or a renewal, it writes to
 * the pipe what it is about to send. When the process dies, the guard releases the leases that the process held.
 *
 * It is *not* guaranteed that a crash is noticed. A guard that is killed, paused, or cut off releases nothing, and the
 * lease expires.
 *
 * Why a release is safe. G1: the guard acts only after the pipe has ended *and* the kernel says that the process is
 * gone. From then on no code of that process believes that it leads (I1). G2: the guard releases only a record of an
 * attempt that this process registered, with a write id that this process registered, at exactly the version that the
 * guard has read. A record of another process, of a clone, or of a successor is never touched (I5). G3: the guard never
 * acquires, renews, or believes, so it adds no leader.
 */
import type { HeldClaim, LeaseRecord } from '../lease-store.ts'

/** An acquire that the process was about to send, and the ids of the writes that followed it. */
export interface GuardedAttempt {
  /** The URL by which the guard opens the store. */
  readonly storeUrl: string
  readonly election: string
  readonly holder: string
  readonly attempt: string
  /** The highest term known when the acquire was sent. A store grants only a higher term. */
  readonly afterTerm: number
  readonly leaseDurationMs: number
  /** How long to wait after the process has gone, for requests that a server still runs on its behalf. */
  readonly afterMs: number
  /** The newest write ids. The first is the acquire's. */
  readonly writeIds: readonly string[]
}

/** The guard's progress on one attempt after the process has gone. */
interface Pursuit {
  readonly attempt: GuardedAttempt
  /** When the next call is due. */
  readonly dueAtMs: number
  /** When the guard stops trying and leaves the lease to expire. */
  readonly untilMs: number
  readonly tries: number
  /** The call in flight, if any. */
  readonly pending: 'read' | 'release' | undefined
}

/** The state of one guard. */
export interface GuardState {
  /**
   * `open`: the pipe is open, so the process seems to be running. `ended`: the pipe has ended, and the guard checks
   * whether the process has ended as well. `releasing`: the process is gone. `over`: nothing is left to do.
   */
  readonly phase: 'open' | 'ended' | 'releasing' | 'over'
  readonly attempts: readonly GuardedAttempt[]
  readonly pursuits: readonly Pursuit[]
  /** When to check the process again, while `ended`. */
  readonly lookAtMs: number
  readonly lookUntilMs: number
  /** Whether the guard was asked to end. It then tries once for each attempt, without retries. */
  readonly isTerminated: boolean
}

/** The inputs that a guard reacts to. */
export type GuardInput = { readonly nowMs: number } & (
  | { readonly type: 'register'; readonly attempt: GuardedAttempt }
  | { readonly type: 'sending'; readonly attempt: string; readonly writeId: string }
  | { readonly type: 'unregister'; readonly attempt: string }
  | { readonly type: 'pipe-ended' | 'terminate' | 'wake' }
  | { readonly type: 'process'; readonly status: ProcessStatus }
  | {
      readonly type: 'found'
      readonly attempt: string
      readonly record: LeaseRecord | undefined
      /** A new write id, for the release. */
      readonly writeId: string
    }
  | { readonly type: 'released'; readonly attempt: string; readonly ok: boolean }
  | { readonly type: 'failed'; readonly attempt: string }
)

/** The kernel's information about the process. `gone` includes a zombie without other threads. */
export type ProcessStatus = 'running' | 'gone' | 'unknown'

/** The effects that the guard process must perform. */
export type GuardEffect =
  | { readonly type: 'look-at-process' }
  | { readonly type: 'read'; readonly attempt: GuardedAttempt }
  | { readonly type: 'release'; readonly attempt: GuardedAttempt; readonly claim: HeldClaim }
  | { readonly type: 'exit' }

/** The maximum number of attempts kept for one elector, as in the elector itself. */
const attemptsLimit = 8
/** The maximum number of write ids kept for one attempt, as in the elector. */
const writeIdsLimit = 64
/** How long a process may take to end after its pipe has ended. A large heap or a core dump takes a while. */
const longestEndMs = 1_000
const lookIntervalMs = 2
/** The guard tries for a third of the lease, but no longer than this. */
const longestPursuitMs = 10_000
const maxImmediateTries = 3
const firstRetryMs = 10
const longestRetryMs = 500

/** The state before the first message. */
export const initialGuardState: GuardState = {
  phase: 'open',
  attempts: [],
  pursuits: [],
  lookAtMs: 0,
  lookUntilMs: 0,
  isTerminated: false,
}

/** Computes the next state and the effects. */
export function guardStep(state: GuardState, input: GuardInput): { state: GuardState; effects: GuardEffect[] } {
  const effects: GuardEffect[] = []
  const applied = apply(state, input, effects)
  return { state: proceed(applied, input.nowMs, effects), effects }
}

/** When the guard must be woken. Undefined if only an input can change the state. */
export function nextGuardWakeMs({ phase, pursuits, lookAtMs }: GuardState): number | undefined {
  if (phase === 'ended') return lookAtMs
  const due = pursuits.filter(({ pending }) => !pending).map(({ dueAtMs, untilMs }) => Math.min(dueAtMs, untilMs))
  return due.length > 0 ? Math.min(...due) : undefined
}

function apply(state: GuardState, input: GuardInput, effects: GuardEffect[]): GuardState {
  const { nowMs } = input
  switch (input.type) {
    case 'register':
      return { ...state, attempts: withAttempt(state.attempts, input.attempt) }
    case 'sending':
      return { ...state, attempts: withWriteId(state.attempts, input.attempt, input.writeId) }
    case 'unregister':
      return { ...state, attempts: state.attempts.filter(({ attempt }) => attempt !== input.attempt) }
    case 'pipe-ended':
      if (state.phase !== 'open') return state
      return { ...state, phase: 'ended', lookAtMs: nowMs, lookUntilMs: nowMs + longestEndMs }
    case 'terminate':
      // While the pipe is open, the guard survives a signal that was meant for the whole process group.
      return state.phase === 'open' ? state : { ...state, isTerminated: true }
    case 'process':
      return processSeen(state, input.status, nowMs)
    case 'found':
      return pursue(state, input.attempt, (pursuit) => found(pursuit, input, effects))
    case 'released':
      return pursue(state, input.attempt, (pursuit) => (input.ok ? undefined : refused(pursuit, nowMs)))
    case 'failed':
      return pursue(state, input.attempt, (pursuit) => again(pursuit, nowMs + retryDelayMs(pursuit)))
    case 'wake':
      return state
  }
}

/** Performs the actions that are due now. */
function proceed(state: GuardState, nowMs: number, effects: GuardEffect[]): GuardState {
  if (state.phase === 'ended') return lookAtProcess(state, nowMs, effects)
  if (state.phase !== 'releasing') return state
  // A service manager signals the guard right after the crash, so a signal alone must not prevent the release.
  const isOver = ({ tries, untilMs }: Pursuit) => (state.isTerminated && tries > 0) || nowMs >= untilMs
  const pursuits = state.pursuits.filter((each) => each.pending || !isOver(each))
  if (pursuits.length === 0) return exit(state, effects)
  return {
    ...state,
    pursuits: pursuits.map((each) => {
      if (each.pending || each.dueAtMs > nowMs) return each
      effects.push({ type: 'read', attempt: each.attempt })
      return { ...each, pending: 'read', tries: each.tries + 1 }
    }),
  }
}

function exit(state: GuardState, effects: GuardEffect[]): GuardState {
  effects.push({ type: 'exit' })
  return { ...state, phase: 'over', pursuits: [] }
}

// While the process runs

function withAttempt(attempts: readonly GuardedAttempt[], added: GuardedAttempt): readonly GuardedAttempt[] {
  const others = attempts.filter(({ attempt }) => attempt !== added.attempt)
  const ofElection = others.filter(
    ({ storeUrl, election, holder }) =>
      storeUrl === added.storeUrl && election === added.election && holder === added.holder,
  )
  const dropped = new Set(ofElection.slice(0, Math.max(0, ofElection.length + 1 - attemptsLimit)))
  return [...others.filter((each) => !dropped.has(each)), added]
}

function withWriteId(attempts: readonly GuardedAttempt[], id: string, writeId: string): readonly GuardedAttempt[] {
  // Every renewal of thousands of electors is processed here, so copy the list without calling a function for each
  // element.
  const index = attempts.findIndex(({ attempt }) => attempt === id)
  const known = attempts[index]
  if (!known) return attempts
  return attempts.with(index, { ...known, writeIds: [...known.writeIds.slice(1 - writeIdsLimit), writeId] })
}

// After the pipe has ended

function lookAtProcess(state: GuardState, nowMs: number, effects: GuardEffect[]): GuardState {
  // G1: if the process is still running, or its state is unknown, its leases expire as they would without a guard.
  if (state.attempts.length === 0 || nowMs >= state.lookUntilMs) return exit(state, effects)
  if (nowMs < state.lookAtMs) return state
  effects.push({ type: 'look-at-process' })
  return { ...state, lookAtMs: nowMs + lookIntervalMs }
}

function processSeen(state: GuardState, status: ProcessStatus, nowMs: number): GuardState {
  if (state.phase !== 'ended' || status !== 'gone') return state
  return { ...state, phase: 'releasing', pursuits: state.attempts.map((attempt) => pursuitOf(attempt, nowMs)) }
}

function pursuitOf(attempt: GuardedAttempt, nowMs: number): Pursuit {
  const dueAtMs = nowMs + attempt.afterMs
  const untilMs = dueAtMs + Math.min(longestPursuitMs, attempt.leaseDurationMs / 3)
  return { attempt, dueAtMs, untilMs, tries: 0, pending: undefined }
}

// After the process has gone

function pursue(state: GuardState, id: string, next: (pursuit: Pursuit) => Pursuit | undefined): GuardState {
  const pursuits = state.pursuits.flatMap((each) => (each.attempt.attempt === id ? (next(each) ?? []) : each))
  return { ...state, pursuits }
}

/** Decides how to handle the record that a read has found. Undefined if this attempt is settled. */
function found(
  pursuit: Pursuit,
  { record, nowMs, writeId }: Extract<GuardInput, { type: 'found' }>,
  effects: GuardEffect[],
): Pursuit | undefined {
  const { attempt } = pursuit
  if (record && isOf(attempt, record)) {
    if (record.released || !wasSentBy(attempt, record)) return undefined
    effects.push({ type: 'release', attempt, claim: claimOf(record, writeId) })
    return { ...pursuit, pending: 'release' }
  }
  // I4: once a higher term exists, the store grants this attempt nothing.
  if (record && record.term > attempt.afterTerm) return undefined
  // The acquire was in flight when the process died, and may still be granted.
  return again(pursuit, nowMs + retryDelayMs(pursuit))
}

function isOf({ holder, attempt }: GuardedAttempt, record: LeaseRecord): boolean {
  return record.attempt === attempt && record.holder === holder
}

/** G2: a record with any other write id was written by a clone of the process, which may still lead. */
function wasSentBy({ writeIds }: GuardedAttempt, { writeId }: LeaseRecord): boolean {
  return typeof writeId === 'string' && writeIds.includes(writeId)
}

function claimOf(record: LeaseRecord, writeId: string): HeldClaim {
  const { election, holder, attempt, term, version, leaseDurationMs } = record
  return { election, holder, attempt, term, version, leaseDurationMs, writeId }
}

/**
 * A write of the dead process landed between the read and the release. Only a few such writes are possible, so do not
 * retry faster for any other reason.
 */
function refused(pursuit: Pursuit, nowMs: number): Pursuit {
  return again(pursuit, nowMs + (pursuit.tries > maxImmediateTries ? retryDelayMs(pursuit) : 0))
}

function again(pursuit: Pursuit, dueAtMs: number): Pursuit {
  return { ...pursuit, pending: undefined, dueAtMs }
}

function retryDelayMs({ tries }: Pursuit): number {
  return Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(tries, 10))
}
