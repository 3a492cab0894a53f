/**
 * The algorithm: a pure function from a state and an input to a state and effects. It has no I/O and no clock: the
 * time, fresh names, randomness, and whether this process should lead come with the input.
 *
 * It does not guarantee that work stops when leadership ends. A process can be paused between asking whether it leads
 * and writing. Only a resource that checks the term (`tenure/fencing`) closes that gap.
 *
 * The rules name the invariant they keep:
 *  I1  Beliefs in leadership never overlap in real time.
 *  I2  Term k+1 is granted only after every belief in k ended, or k was released.
 *  I3  Terms rise; one term belongs to one attempt forever.
 *  I4  A term is never used again.
 *  I5  An answer to an earlier attempt, or one after belief ended, changes nothing.
 *  I7  Started and stopped come in pairs; a lease is released only after the work settled.
 *  I10 A healthy candidate takes over in bounded time, and without a fault nothing changes.
 *
 * Who should lead is decided in `preference.ts`. Those rules only delay an acquire or make a leader step down.
 *
 * The algorithm uses two clocks. `nowMs` is monotonic and may pause while the machine sleeps. A contender waits on it,
 * so a sleep only makes it wait longer. A holder counts `nowMs + sleptMs`, so a sleep always uses up its lease.
 */
import { append } from '@tenure/internal/append'
import { messageOf } from '@tenure/internal/message'
import { isAnswer } from '@tenure/internal/store-answers'
import {
  canWriteCheckpoint,
  deadlineOf,
  isWatching,
  grantedFraction,
  type Attempt,
  type Call,
  type MutableState,
  type Effect,
  type ElectionState,
  type Ending,
  type PendingCall,
  type StopCause,
  type Grant,
  type Input,
  type OwnAttempt,
  type ElectionSettings,
} from './election-state.ts'
import { isTenureError, isVoluntaryEnd, TenureError, type LossReason } from '../common/errors.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from './lease-store.ts'
import {
  expiresAtMs,
  hasExpired,
  noteRecord,
  observeRecord,
  pastOf,
  versionKey,
  versionOf,
  type ObservedVersion,
} from './observed-expiry.ts'
import {
  answered,
  askAtMs,
  handOverMs,
  heldBack,
  isNamed,
  onElected,
  onProbation,
  reasonToStepDown,
  stepsDown,
  successorOf,
  type LeaseObservation,
  type PreferenceAnswer,
} from './preference.ts'

const ownLimit = 8
/**
 * How many write ids of an attempt are remembered. After a failover, a store may show an id that is older than the
 * newest.
 */
const seenWriteIdsLimit = 8
/**
 * A renewal that is applied only after this many later ones is attributed to a clone. That costs a term, never safety.
 */
const sentWriteIdsLimit = 64
/** How many refusals in a row are retried immediately before retries are delayed. */
const maxImmediateRetries = 3
/**
 * Upper limits for releasing a lease during stop(), for all tries and for one call, no matter how long the lease is.
 */
const releaseTimeoutMs = 10_000
const releaseCallTimeoutMs = 5_000
const releaseRetryIntervalMs = 2_000
/** A call may take this many times as long as the previous one before it times out. */
const slowCallFactor = 1.5

/** One step of the algorithm. */
export function step(state: ElectionState, input: Input): { state: ElectionState; effects: Effect[] } {
  const s: MutableState = { ...state, nowMs: input.nowMs, sleptMs: input.sleptMs }
  const effects = new Effects(input)
  // I1, I5: a belief that has expired ends before the input is processed, regardless of the input.
  endIfExpired(s, effects)
  take(s, effects, input)
  // The input may have shortened the grant. Nothing may be sent based on a belief that has ended.
  endIfExpired(s, effects)
  consult(s, effects)
  proceed(s, effects)
  return { state: s, effects: effects.list }
}

function endIfExpired(s: MutableState, effects: Effects): void {
  if (s.phase === 'leading' && heldNow(s) >= deadlineOf(s)) endLeadership(s, effects, 'expired')
}

/** Asks whether this process should lead, at least once per retry interval, and steps down if it should not (I10). */
function consult(s: MutableState, effects: Effects): void {
  if (s.nowMs >= askAtMs(s)) ask(s, effects)
  const reason = s.phase === 'leading' ? reasonToStepDown(s) : undefined
  if (!reason) return
  s.preference = onProbation(s)
  endLeadership(s, effects, reason)
}

function ask(s: MutableState, effects: Effects): void {
  if (!s.settings.asks || s.preference.askedAtMs >= s.nowMs) return
  const answer = effects.ask()
  const hasChanged = answer.eligible !== s.preference.eligible
  s.preference = answered(s, answer)
  if (answer.problem !== undefined) effects.push({ type: 'error', error: answer.problem })
  if (hasChanged) effects.push({ type: 'eligibility', eligible: answer.eligible })
}

/** Collects the effects of one step. Provides its fresh name, its randomness, its wall time, and the preference. */
class Effects {
  readonly list: Effect[] = []
  readonly #input: Input

  constructor(input: Input) {
    this.#input = input
  }

  push(effect: Effect): void {
    this.list.push(effect)
  }

  /** Call at most once per step. No step starts two writes. */
  freshName(): string {
    return this.#input.fresh()
  }

  /** Returns a number of at least 0 and below 1. */
  chance(): number {
    return this.#input.chance()
  }

  ask(): PreferenceAnswer {
    return this.#input.ask()
  }

  /** See {@link wasJustRenewed}, the only use of a wall clock. */
  wallMs(): number {
    return this.#input.wallMs()
  }
}

function take(s: MutableState, effects: Effects, input: Input): void {
  switch (input.type) {
    case 'start':
      if (s.phase !== 'idle') return
      enterStandby(s, effects)
      // I2: the durations in it count from when this process first saw each version, as if the campaign had begun then.
      if (input.known) Object.assign(s, input.known)
      return
    case 'stop':
      return stop(s, effects)
    case 'members':
      s.preference = { ...s.preference, newer: input.newer }
      return
    case 'step-down':
      return stepDown(s, effects, input.cooldownMs, input.successor)
    case 'work':
      s.work = input.pending
      return
    case 'end-told':
      if (s.ending) s.ending = { ...s.ending, told: true }
      return
    case 'checkpoint':
      if (!s.grant || !canWriteCheckpoint(s, heldNow(s))) return
      s.checkpoint = input.text
      if (!s.flight) s.grant = { ...s.grant, renewAtMs: heldNow(s) }
      return
    case 'observed': {
      if (s.phase !== 'standby') return
      const { view } = s
      observe(s, effects, input.record, { watched: true })
      // An event may describe the past, so it does not prove that a lease is alive. Ask the store immediately.
      if (givesUpIfBusy(s) && s.view !== view) s.tryAtMs = s.nowMs
      // I10: a read that hangs must not delay taking over a free lease.
      if (s.flight?.verb === 'read' && !repeatableAttempt(s) && s.view && isFree(s.view)) cancel(s, effects)
      return
    }
    case 'watch-ended':
      if (s.watch !== 'open') return
      s.watch = 'broken'
      s.rewatchAtMs = s.nowMs + withJitter(effects, s.settings.retryIntervalMs)
      // Only move the next read earlier. A watch that ends as often as it is opened must not postpone that read
      // forever.
      if (s.phase === 'standby' && s.view) {
        const { tryAtMs } = s
        schedule(s, effects, false)
        s.tryAtMs = Math.min(tryAtMs, s.tryAtMs)
      }
      return
    case 'answer':
    case 'found':
    case 'failed': {
      // I5: only the answer to the pending call counts. A late answer, or one to a canceled call, is dropped.
      const { flight } = s
      if (flight?.id !== input.call) return
      s.flight = undefined
      if (input.type !== 'failed') s.answeredInMs = callDurationMs(s, flight)
      return settleCall(s, effects, flight, input)
    }
  }
}

/**
 * How long an answer took, at most one lease duration. If this process was paused, the wait says nothing about the
 * store.
 */
function callDurationMs(s: MutableState, { startedAtMs, verb }: PendingCall): number {
  return Math.min(s.nowMs - startedAtMs, s.settings.leaseDurationMs) / (verb === 'acquire' ? 2 : 1)
}

function settleCall(
  s: MutableState,
  effects: Effects,
  flight: PendingCall,
  input: Extract<Input, { call: number }>,
): void {
  if (flight.verb === 'renew') {
    if (input.type === 'answer') return renewAnswered(s, effects, flight, input.outcome)
    if (input.type === 'failed') return renewFailed(s, effects, flight, input.error)
    return
  }
  if (s.phase === 'ending') return releaseSettled(s, effects, flight, input)
  if (input.type === 'failed') return contenderFailed(s, effects, flight, input.error)
  const before = s.view
  if (input.type === 'found') found(s, effects, input.record)
  else if (flight.verb === 'acquire') acquireAnswered(s, effects, input.outcome)
  else abandonedReleased(s, effects, input.outcome)
  noteAnswer(s, { isWrite: flight.verb !== 'read', isOk: input.type === 'found' || input.outcome.ok })
  // An event that arrived during this call may be newer than the answer and is not repeated. Ask the store immediately.
  const overtaken = before !== undefined && before.seenAtMs > flight.startedAtMs && !isSameVersion(before, s.view)
  if (overtaken && !s.flight) s.tryAtMs = s.nowMs
}

function isSameVersion(one: LeaseObservation, other: LeaseObservation | undefined): boolean {
  return one.record?.version === other?.record?.version && one.record?.released === other?.record?.released
}

function abandonedReleased(s: MutableState, effects: Effects, outcome: Outcome): void {
  observe(s, effects, outcome.record, outcome.ok ? {} : outcome)
  paceRefusals(s, effects)
}

/** Performs the actions that are due now. All such decisions are made here, so that no input can skip one. */
function proceed(s: MutableState, effects: Effects): void {
  if (s.phase === 'leading') renewIfDue(s, effects)
  if (s.phase === 'ending') windDown(s, effects)
  if (s.phase === 'standby') contend(s, effects)
}

// Contending

function enterStandby(s: MutableState, effects: Effects): void {
  s.phase = 'standby'
  s.grant = undefined
  s.ending = undefined
  s.tryAtMs = s.nowMs
  s.contendsSinceMs = s.nowMs
  s.writeFailedAtMs = undefined
  s.view = undefined
  s.refusals = 0
  if (s.nowMs < s.cooldownUntilMs) openWatch(s, effects)
}

function contend(s: MutableState, effects: Effects): void {
  if (s.watch === 'broken' && s.nowMs >= s.rewatchAtMs) openWatch(s, effects)
  if (s.stopUntilMs !== undefined) return finishStop(s, effects, s.stopUntilMs)
  if (s.flight || s.nowMs < s.tryAtMs) return
  const { view } = s
  if (view?.record && isAbandoned(s, view.record)) {
    return send(s, effects, 'release', heldClaim(s, view.record, effects.freshName()))
  }
  if (s.nowMs < s.cooldownUntilMs) return stayOut(s, effects, s.cooldownUntilMs)
  // Before any other try, read to resolve an acquire whose outcome is unknown.
  if (s.attempt) return send(s, effects, 'read')
  if (view && !isFree(view) && !mayHaveExpired(s, view)) return send(s, effects, 'read')
  // I10: belief counts from the acquire. On a slow network, a lease that also covered connecting and reading would be
  // too old to lead.
  // A candidate of a lower priority must know whether the lease was released before it can leave it to others. An
  // elector that does not wait must know that the leader is alive, and a read alone does not show that.
  const readsFirst = s.settings.readsFirst || (stepsDown(s) > 0 && s.settings.until !== 'busy')
  if (readsFirst && s.lastReplyAtMs < s.contendsSinceMs) return send(s, effects, 'read')
  ask(s, effects)
  const wait = heldBack(s)
  if (!wait) return sendAcquire(s, effects)
  if (wait.by === 'ineligible' && (givesUpIfBusy(s) || s.settings.until === 'refused')) {
    return giveUp(s, effects, { error: ineligible(s) })
  }
  stayOut(s, effects, wait.untilMs)
}

/** Does not contend until then. Without a watch, it polls to keep track of the leader. */
function stayOut(s: MutableState, effects: Effects, untilMs: number): void {
  const lookAtMs = isWatching(s) ? Infinity : s.lastReplyAtMs + s.settings.retryIntervalMs
  if (s.nowMs >= lookAtMs) return send(s, effects, 'read')
  // Once that time has passed, do not wake for it: a timer in the past would fire again and again.
  s.tryAtMs = Math.min(lookAtMs, untilMs, givesUpIfBusy(s) ? Infinity : givesUpFromMs(s))
}

function ineligible({ settings }: MutableState): TenureError {
  const text = `This process is not eligible to lead "${settings.election}", and the time to wait for that has passed.`
  return new TenureError('BUSY', text, { retryable: true })
}

function sendAcquire(s: MutableState, effects: Effects): void {
  const { settings, view } = s
  // I3: only a call of unknown outcome is repeated with the same attempt. Belief counts from its first transmission.
  s.attempt ??= newAttempt(s, effects.freshName())
  const expired = view && hasExpired(view, s.nowMs) ? { expiredVersion: versionOf(view) } : {}
  send(s, effects, 'acquire', {
    election: settings.election,
    holder: settings.identity,
    attempt: s.attempt.id,
    leaseDurationMs: settings.leaseDurationMs,
    // I2, I4: the store refuses if a term was granted that this elector does not know about.
    afterTerm: s.highestTerm,
    ...expired,
    metadata: settings.metadata,
    writeId: s.attempt.id,
  })
}

function newAttempt(s: MutableState, id: string): Attempt {
  s.own = append(s.own, { id, seen: [], sent: [id] }, ownLimit)
  return { id, firstSentAtMs: heldNow(s), afterTerm: s.highestTerm, floorTerm: s.highestTerm }
}

function acquireAnswered(s: MutableState, effects: Effects, outcome: Outcome): void {
  if (!outcome.ok) {
    s.attempt = undefined
    const knownTerm = s.highestTerm
    // I2: another process has led since then, so earlier observations say nothing about its lease.
    if (outcome.highestTerm > s.highestTerm) s.view = undefined
    s.highestTerm = Math.max(s.highestTerm, outcome.highestTerm)
    const before = s.confirmed
    observe(s, effects, outcome.record, { ...outcome, knownTerm })
    paceRefusals(s, effects)
    giveUpIfBusy(s, effects, before, outcome)
    return giveUpIfRefused(s, effects, outcome.record)
  }
  claimGrant(s, effects, outcome.record, outcome.validForMs)
}

/**
 * With `until: 'busy'`, the elector stops after `waitMs`, once another process's lease is alive: the store said so, the
 * lease was written between two answers from the store, or its last renewal is recent by the wall clock. A lease that
 * merely exists may belong to a leader that crashed, so the elector waits for it to expire.
 */
function giveUpIfBusy(
  s: MutableState,
  effects: Effects,
  before: ObservedVersion | undefined,
  { record, retryAfterMs = 0 }: { readonly record?: LeaseRecord | undefined; readonly retryAfterMs?: number },
): void {
  if (!givesUpIfBusy(s) || s.phase !== 'standby') return
  if (!record || record.released || ownOf(s, record)) return
  const isWrittenSince = before !== undefined && before.key !== versionKey(record)
  if (retryAfterMs > 0 || isWrittenSince || wasJustRenewed(record, effects.wallMs())) giveUp(s, effects, { record })
}

/**
 * Whether the wall clocks of the leader and of this process say that the lease was renewed within its duration. Either
 * clock may be wrong, so this is only a reason to give up, which is always safe (I1, I2): it grants nothing, and it
 * neither starts nor shortens a wait for expiry.
 *
 * I10: it must not report a crashed leader as alive forever. `renewedAt` no longer changes then, and a time in the
 * future does not count. So whatever the clocks say, this is true for at most one lease duration of this process's
 * clock. After that, the next candidate observes the lease until it expires.
 */
function wasJustRenewed({ renewedAt, leaseDurationMs }: LeaseRecord, wallMs: number): boolean {
  const ageMs = wallMs - renewedAt
  return ageMs >= 0 && ageMs < leaseDurationMs
}

/** From when on this campaign gives up if another process leads. Infinity for an elector that waits without a limit. */
function givesUpFromMs({ settings, contendsSinceMs }: MutableState): number {
  return settings.until === 'busy' ? contendsSinceMs + settings.waitMs : Infinity
}

function givesUpIfBusy(s: MutableState): boolean {
  return s.nowMs >= givesUpFromMs(s)
}

function giveUpIfRefused(s: MutableState, effects: Effects, record: LeaseRecord | undefined): void {
  // A free lease is refused only if the elector did not know the newest term. It knows that term now.
  const isFreeNow = s.view && (isFree(s.view) || mayHaveExpired(s, s.view))
  if (s.settings.until === 'refused' && !isFreeNow) giveUp(s, effects, { record })
}

function giveUp(s: MutableState, effects: Effects, why: StopCause): void {
  s.gaveUp = why
  stop(s, effects)
}

/** Retries a refusal immediately a few times, then with a delay, so that a store that keeps refusing is not flooded. */
function paceRefusals(s: MutableState, effects: Effects): void {
  // Jitter alone does not count as backoff.
  if (s.tryAtMs > s.nowMs + 1 + watchedSpreadMs(s)) {
    s.refusals = 0
    return
  }
  s.refusals += 1
  if (s.refusals > maxImmediateRetries || !s.view) s.tryAtMs = s.nowMs + withJitter(effects, s.settings.retryIntervalMs)
}

/** Handles the result of a read, which either resolves an acquire of unknown outcome or is a poll. */
function found(s: MutableState, effects: Effects, record: LeaseRecord | undefined): void {
  const { attempt } = s
  if (attempt && record?.attempt === attempt.id && !record.released) {
    return claimGrant(s, effects, record, record.leaseDurationMs)
  }
  const before = s.confirmed
  observe(s, effects, record, { isRead: true })
  if (!attempt) {
    giveUpIfBusy(s, effects, before, { record })
    // A lease that was never written is free.
    if (s.view) giveUpIfRefused(s, effects, record)
    return
  }
  const isGivenUp = isOld(s, attempt)
  if (isGivenUp || s.nowMs < s.cooldownUntilMs) s.attempt = undefined
  // The acquire was not applied yet, or its lease has already ended. Repeat it only if it could be granted now.
  const free = !s.view || isFree(s.view) || mayHaveExpired(s, s.view)
  if (!free || record?.attempt === attempt.id || s.stopUntilMs !== undefined) s.attempt = undefined
  ask(s, effects)
  if (heldBack(s)) s.attempt = undefined
  // After an outage, ask the store as at the start. A store with its own clock may know that the lease has expired.
  if (s.attempt || (isGivenUp && canSendAcquire(s))) sendAcquire(s, effects)
}

/** Whether an acquire may be sent now, because nothing else has to happen first. */
function canSendAcquire(s: MutableState): boolean {
  if (heldBack(s) || s.stopUntilMs !== undefined) return false
  return !s.view?.record || !isAbandoned(s, s.view.record)
}

function claimGrant(s: MutableState, effects: Effects, record: LeaseRecord, grantedForMs: number): void {
  const { attempt, settings } = s
  const validForMs = beliefMs(settings, record, grantedForMs)
  const sound = record.attempt === attempt?.id && record.term > attempt.floorTerm && !record.released
  s.attempt = undefined
  if (sound && isCloned(s, record)) {
    disown(s, effects, record)
    return observe(s, effects, record, {})
  }
  if (!sound && isOvertaken(attempt, record)) {
    // I5: the grant is not even announced, because a newer record was observed. That event may describe the past, so
    // ask the store immediately.
    s.tryAtMs = s.nowMs
    return giveUpIfRefused(s, effects, s.view?.record)
  }
  if (!sound) {
    // I4: a grant at or below a term that was already seen is never believed.
    effects.push({ type: 'error', error: unsoundGrant(settings.election, record) })
    observe(s, effects, record, {})
    s.tryAtMs = s.nowMs + withJitter(effects, settings.retryIntervalMs)
    return
  }
  s.grant = {
    record,
    // I1: the lease counts from the first transmission, never from the reply, a retry, or the read that resolved the
    // acquire.
    sentAtMs: attempt.firstSentAtMs,
    validForMs,
    failures: 0,
    adoptions: 0,
    renewAtMs: attempt.firstSentAtMs + renewIntervalMs(settings, validForMs),
  }
  const unwanted = s.stopUntilMs !== undefined || s.nowMs < s.cooldownUntilMs
  if (unwanted || heldNow(s) >= deadlineOf(s)) {
    // I5: it is too late to lead, so this grant is released like any other abandoned attempt.
    s.grant = undefined
    return observe(s, effects, record, {})
  }
  s.highestTerm = Math.max(s.highestTerm, record.term)
  noteWriteId(s, record)
  s.phase = 'leading'
  s.preference = onElected(s)
  // Observations of other leaders will be outdated when this elector contends again. It must then ask the store
  // immediately.
  s.view = undefined
  s.lastReplyAtMs = -Infinity
  s.seen = []
  s.refusals = 0
  if (s.watch === 'open') effects.push({ type: 'watch', open: false })
  s.watch = 'closed'
  announce(s, effects, record)
  effects.push({ type: 'elected', record })
}

/**
 * Whether an event of a later term overtook this grant, for example after a stall or a sleep. The lease expired in the
 * meantime, and the store made no mistake. The store would be at fault if the term had been known before the acquire
 * was sent, or if it belonged to another attempt.
 */
function isOvertaken(attempt: Attempt | undefined, { attempt: id, term, released }: LeaseRecord): boolean {
  return id === attempt?.id && !released && attempt.afterTerm < term && term < attempt.floorTerm
}

function unsoundGrant(election: string, { term }: LeaseRecord): TenureError {
  const text = `The store granted "${election}" in term ${term}, but that term is not higher than every term seen, or the grant belongs to another attempt. The grant is ignored. Check the store: it may have lost data.`
  return new TenureError('RECORD_INVALID', text)
}

function contenderFailed(s: MutableState, effects: Effects, flight: PendingCall, error: unknown): void {
  effects.push({ type: 'error', error })
  s.tryAtMs = Math.max(s.nowMs, flight.startedAtMs + withJitter(effects, s.settings.retryIntervalMs))
  // Keep an old attempt until the store answers. An outage then leaves one attempt of unknown outcome instead of
  // dozens, and a late grant of it is recognized and released.
  if (s.nowMs < s.cooldownUntilMs) s.attempt = undefined
  if (flight.verb !== 'read') s.writeFailedAtMs ??= flight.startedAtMs
  // The acquire may have been applied, so this stop waits like any other to read and release the lease.
  if (s.settings.until === 'refused' && s.stopUntilMs === undefined) return giveUp(s, effects, { error })
  // A try with less time than this would end with a timeout, which would hide the store's actual error.
  if (s.tryAtMs + s.settings.retryIntervalMs / 2 >= answerDueMs(s)) giveUp(s, effects, { error: unanswered(s, error) })
  if (s.stopUntilMs !== undefined) s.stopUntilMs = s.nowMs
}

/**
 * When an elector with a limited wait stops waiting for a store that has not answered. Infinity for all other electors.
 */
function answerDueMs(s: MutableState): number {
  const { settings, contendsSinceMs } = s
  if (settings.until !== 'busy' && settings.until !== 'unanswered') return Infinity
  return Math.max(silentSinceMs(s) + settings.leaseDurationMs, contendsSinceMs + settings.waitMs)
}

function silentSinceMs({ contendsSinceMs, lastReplyAtMs, writeFailedAtMs = Infinity }: MutableState): number {
  return Math.max(contendsSinceMs, Math.min(lastReplyAtMs, writeFailedAtMs))
}

function noteAnswer(s: MutableState, reply: { readonly isWrite: boolean; readonly isOk: boolean }): void {
  const known = { hasWriteFailed: s.writeFailedAtMs !== undefined, isHeld: isHeldByOther(s) }
  if (isAnswer(reply, known)) s.writeFailedAtMs = undefined
}

/** Whether another process was observed to hold a live lease. */
export function isHeldByOther(s: ElectionState): boolean {
  const { view } = s
  return view?.record !== undefined && !isFree(view) && !ownOf(s, view.record) && !mayHaveExpired(s, view)
}

function unanswered(s: MutableState, cause: unknown): TenureError {
  const { settings, writeFailedAtMs, lastReplyAtMs } = s
  const isReadable = writeFailedAtMs !== undefined && lastReplyAtMs > writeFailedAtMs
  const what = isReadable ? 'could be read but accepted no writes' : 'did not answer'
  const silentMs = Math.round(s.nowMs - silentSinceMs(s))
  const text = `The store of "${settings.election}" ${what} for ${silentMs} ms: ${messageOf(cause)}`
  const { code, retryable } = isTenureError(cause) ? cause : ({ code: 'BACKEND_UNAVAILABLE', retryable: true } as const)
  return new TenureError(code, text, { retryable, cause })
}

/**
 * Whether an acquire is too old to repeat. It is repeated only while a grant would leave time to lead. After that it is
 * abandoned permanently.
 */
function isOld(s: MutableState, { firstSentAtMs }: Attempt): boolean {
  return heldNow(s) >= firstSentAtMs + maxUsefulAgeMs(s.settings)
}

/** The acquire of unknown outcome that may be repeated, or whose grant would still be useful. */
function repeatableAttempt(s: MutableState): Attempt | undefined {
  return s.attempt && !isOld(s, s.attempt) ? s.attempt : undefined
}

/** Records what a reply or a watch event shows. */
function observe(
  s: MutableState,
  effects: Effects,
  record: LeaseRecord | undefined,
  from: {
    readonly watched?: boolean
    readonly retryAfterMs?: number
    readonly isRead?: boolean
    /** The highest term known before this answer. */
    readonly knownTerm?: number
  },
): void {
  const { knownTerm = s.highestTerm } = from
  const retryAtMs = from.retryAfterMs === undefined ? undefined : s.nowMs + from.retryAfterMs
  const { watched = false } = from
  const observed = observeRecord(s, {
    record,
    watched,
    nowMs: s.nowMs,
    ownDurationMs: s.settings.leaseDurationMs,
    absentForMs: from.retryAfterMs,
  })
  if (record) {
    // Events do not count here. They may describe the past, such as this elector's own renewal from long ago.
    if (!watched && isCloned(s, record)) disown(s, effects, record)
    const past = pastOf(s, record)
    // A reply is authoritative and always counts. An event of a lower term may describe the past, or may mean that the
    // record was deleted and recreated. Only the store itself can tell, so ask it.
    if (watched && past === 'lower-term') {
      s.tryAtMs = Math.min(s.tryAtMs, s.nowMs + withJitter(effects, s.settings.retryIntervalMs))
    }
    if (watched && past) return
    const missedMs = past === 'replayed' || watched ? undefined : missedRenewalExpiryMs(s)
    const retryOrAskAtMs = retryAtMs ?? (from.isRead ? knownRetryMs(s, record) : undefined) ?? missedMs
    const isKnown = s.view?.record?.version === record.version && s.view.record.released === record.released
    const isOldRelease = isKnown ? s.view?.isOldRelease === true : successorOf(record) !== undefined && knownTerm === 0
    const blockedUntilMs = record.released ? (retryAtMs ?? (isKnown ? s.view?.blockedUntilMs : undefined)) : undefined
    s.view = observed.view && { ...observed.view, retryAtMs: retryOrAskAtMs, blockedUntilMs, isOldRelease }
    // A candidate that a leader hands over to is wanted again, even if it stepped down before.
    if (!isKnown && isNamed(s)) s.cooldownUntilMs = Math.min(s.cooldownUntilMs, s.nowMs)
    s.seen = observed.seen
    s.confirmed = observed.confirmed
    note(s, record)
    // The elector's own attempt is announced when it leads. The grant of an abandoned attempt elects nobody.
    if (!record.released && !ownOf(s, record)) announce(s, effects, record)
  } else if (s.settings.terms && (s.highestTerm > 0 || s.view)) {
    const gone = s.view && !s.view.record ? s.view : undefined
    const still = { retryAtMs: retryAtMs ?? gone?.retryAtMs, blockedUntilMs: undefined, isOldRelease: false }
    s.view = observed.view && { ...observed.view, ...still }
  } else {
    s.view = undefined
  }
  if (!from.watched) s.lastReplyAtMs = s.nowMs
  // Open the watch only after the first answer, and only to wait. An elector that wins immediately does not need one.
  const isHeldBack = s.nowMs >= s.cooldownUntilMs && heldBack(s) !== undefined
  const isAboutToWin = s.settings.readsFirst && (!s.view || isFree(s.view)) && !isHeldBack
  if (s.watch === 'closed' && s.stopUntilMs === undefined && !isAboutToWin) openWatch(s, effects)
  // An acquire of unknown outcome is resolved first. An event must not postpone that.
  if (!from.watched || !s.attempt) schedule(s, effects, from.watched ?? false)
  else if (record?.attempt === s.attempt.id) s.tryAtMs = s.nowMs
}

/**
 * A read does not say when a try is worthwhile. If the store has said so about the same version, that still counts
 * (I10): it may have seen that version long before this elector did.
 */
function knownRetryMs({ view, nowMs }: MutableState, { version }: LeaseRecord): number | undefined {
  const isKnown = view?.record?.version === version && view.retryAtMs !== undefined && view.retryAtMs > nowMs
  return isKnown ? view.retryAtMs : undefined
}

/**
 * If an answer shows a version that the watch did not, the watch misses renewals, for example because they are written
 * in another cluster. In that case, this version may have been observed late. So ask the store when the previous
 * version would have expired (I10): the store may know.
 */
function missedRenewalExpiryMs({ watch, view, nowMs }: MutableState): number | undefined {
  if (watch !== 'open' || !view?.record || isFree(view)) return undefined
  return hasExpired(view, nowMs) ? undefined : expiresAtMs(view)
}

/**
 * I2, I4: remembers the terms and durations of every record for the elector's lifetime, whatever call or event showed
 * it.
 */
function note(s: MutableState, record: LeaseRecord): void {
  Object.assign(s, noteRecord(s, record))
  const { attempt } = s
  if (!attempt || record.attempt === attempt.id) return
  s.attempt = { ...attempt, floorTerm: Math.max(attempt.floorTerm, record.term) }
}

/** Decides when to try next: immediately if the lease is free, otherwise when it expires (I10). */
function schedule(s: MutableState, effects: Effects, watched: boolean): void {
  const { view, settings } = s
  const { leaseDurationMs, retryIntervalMs } = settings
  if (!view || (view.record && isAbandoned(s, view.record))) {
    s.tryAtMs = s.nowMs
  } else if (isFree(view)) {
    // The store may have said that it grants nothing before. A watch shows if that changes.
    const freeAtMs = s.watch === 'open' ? Math.max(s.nowMs, view.blockedUntilMs ?? s.nowMs) : s.nowMs
    s.tryAtMs = freeAtMs + (watched ? (effects.chance() * leaseDurationMs) / 5000 : 0)
  } else {
    const watching = s.watch === 'open'
    const spreadMs = watching ? watchedSpreadMs(s) : retryIntervalMs
    const expiryMs = (view.retryAtMs ?? expiresAtMs(view)) + effects.chance() * spreadMs
    // A watch may go silent, or keep replaying the past. So ask the store itself from time to time.
    const askMs = watching
      ? s.lastReplyAtMs + 2 * withJitter(effects, view.holdsForMs)
      : s.nowMs + withJitter(effects, retryIntervalMs)
    s.tryAtMs = Math.max(s.nowMs, Math.min(expiryMs, askMs))
  }
  // When that time has passed, ask whether the leader is still alive.
  if (!givesUpIfBusy(s)) s.tryAtMs = Math.min(s.tryAtMs, givesUpFromMs(s))
}

/** The jitter for a fleet of standbys that watch, because they all wait for the same moment. */
function watchedSpreadMs({ settings }: MutableState): number {
  return settings.leaseDurationMs / 200
}

function announce(s: MutableState, effects: Effects, record: LeaseRecord): void {
  if (record.term <= s.announcedTerm) return
  s.announcedTerm = record.term
  effects.push({ type: 'new-leader', record })
}

function isFree(view: LeaseObservation): boolean {
  return view.record?.released ?? false
}

function mayHaveExpired(s: ElectionState, view: LeaseObservation): boolean {
  return hasExpired(view, s.nowMs) || (view.retryAtMs !== undefined && s.nowMs >= view.retryAtMs)
}

/**
 * Whether a record belongs to an attempt of this elector that is not the current one: abandoned, too late, or from a
 * leadership that ended. I2: only if its write id was sent by this elector. If a store lost the write id, as a
 * restarted service does, the record may show the lease of a clone.
 */
function isAbandoned(s: MutableState, record: LeaseRecord): boolean {
  return !record.released && record.attempt !== s.attempt?.id && hasOwnWriteId(s, record)
}

function hasOwnWriteId(s: MutableState, record: LeaseRecord): boolean {
  const own = ownOf(s, record)
  const { writeId } = record
  return own !== undefined && typeof writeId === 'string' && (own.seen.includes(writeId) || own.sent.includes(writeId))
}

function ownOf(s: ElectionState, record: LeaseRecord): OwnAttempt | undefined {
  return s.own.find(({ id }) => id === record.attempt)
}

/**
 * Whether another process wrote the record of one of this elector's attempts. This cannot be detected where a store
 * keeps no write ids.
 */
function isCloned(s: MutableState, record: LeaseRecord): boolean {
  const marked = typeof record.writeId === 'string' && !record.released
  return marked && ownOf(s, record) !== undefined && !hasOwnWriteId(s, record)
}

/**
 * Remembers the write id of a record. Forgets ids that were sent before it: those writes named an earlier version and
 * can no longer be applied.
 */
function noteWriteId(s: MutableState, { attempt, writeId }: LeaseRecord): void {
  if (typeof writeId !== 'string') return
  s.own = s.own.map((own) => {
    if (own.id !== attempt) return own
    const seen = own.seen.includes(writeId) ? own.seen : append(own.seen, writeId, seenWriteIdsLimit)
    return { ...own, seen, sent: own.sent.slice(own.sent.indexOf(writeId) + 1) }
  })
}

/**
 * I2: if a record of one of this elector's attempts has a write id that was never sent from here, a clone of this
 * process wrote it, for example on a second machine restored from the same snapshot. The lease now belongs to the
 * clone, so this elector neither renews nor releases it. The next campaign uses an attempt that the clone cannot know.
 */
function disown(s: MutableState, effects: Effects, record: LeaseRecord): void {
  s.own = s.own.filter(({ id }) => id !== record.attempt)
  if (s.attempt?.id === record.attempt) s.attempt = undefined
  if (s.grant?.record.attempt === record.attempt) s.grant = undefined
  effects.push({ type: 'error', error: clonedError(s.settings.election, record) })
}

function clonedError(election: string, { holder, term }: LeaseRecord): TenureError {
  const text = `Another process renews the lease of "${election}" that "${holder}" was granted here in term ${term}. Either a copy of this process is running, for example from a machine snapshot, or the store lost its newest writes. This process gave up that term and campaigns again.`
  return new TenureError('CLONED', text)
}

function openWatch(s: MutableState, effects: Effects): void {
  if (s.watch === 'open' || !s.settings.canWatch) return
  s.watch = 'open'
  effects.push({ type: 'watch', open: true })
}

// Leading

function renewIfDue(s: MutableState, effects: Effects): void {
  const { grant } = s
  if (!grant || s.flight || heldNow(s) < grant.renewAtMs) return
  const claim = claimWithWriteId(s, effects, grant)
  send(s, effects, 'renew', { ...claim, ...(s.checkpoint !== undefined && { checkpoint: s.checkpoint }) })
}

function renewAnswered(s: MutableState, effects: Effects, flight: PendingCall, outcome: Outcome): void {
  const { grant, settings } = s
  // I5: an answer that arrives after belief ended extends nothing.
  if (!grant || heldNow(s) >= deadlineOf(s)) return
  const { record } = outcome
  const own = record?.attempt === grant.record.attempt && record.term === grant.record.term && !record.released
  if (own && isCloned(s, record)) {
    if (s.phase === 'leading') endLeadership(s, effects, 'superseded')
    disown(s, effects, record)
  } else if (own && outcome.ok) {
    const validForMs = beliefMs(settings, record, outcome.validForMs)
    s.grant = {
      record,
      // I1: the lease counts from the moment the renewal was sent.
      sentAtMs: flight.sentAtMs,
      validForMs,
      failures: 0,
      adoptions: 0,
      renewAtMs:
        s.checkpoint === flight.checkpoint ? flight.sentAtMs + renewIntervalMs(settings, validForMs) : heldNow(s),
    }
    noteWriteId(s, record)
    effects.push({ type: 'renewed', record })
    if (flight.checkpoint === undefined) return
    if (flight.checkpoint === s.checkpoint) s.checkpoint = undefined
    effects.push({ type: 'checkpoint-written', text: flight.checkpoint })
  } else if (own) {
    // Either an earlier renewal was applied and its reply was lost, or another process changed the record. Neither case
    // ends or extends the lease.
    const adoptions = grant.adoptions + 1
    const renewAtMs = heldNow(s) + (adoptions > maxImmediateRetries ? settings.retryIntervalMs : 0)
    s.grant = { ...grant, record, adoptions, renewAtMs }
    noteWriteId(s, record)
  } else {
    if (s.phase === 'leading') endLeadership(s, effects, 'superseded')
    s.grant = undefined
    noteRefusal(s, outcome)
  }
}

function noteRefusal(s: MutableState, outcome: Outcome): void {
  if (!outcome.ok) s.highestTerm = Math.max(s.highestTerm, outcome.highestTerm)
  if (outcome.record) note(s, outcome.record)
}

/**
 * I2: others wait for the duration in the record, so its writer must not believe that it leads for longer. A missing
 * duration counts as 0.
 */
function beliefMs(settings: ElectionSettings, { leaseDurationMs }: LeaseRecord, grantedForMs: number): number {
  return Math.min(grantedForMs, leaseDurationMs, settings.leaseDurationMs)
}

function renewIntervalMs(settings: ElectionSettings, validForMs: number): number {
  return settings.renewIntervalMs * grantedFraction(settings, validForMs)
}

/**
 * One failed renewal never ends leadership. Reaching the deadline always does, and so does `maxFailedRenewals` if it is
 * set.
 */
function renewFailed(s: MutableState, effects: Effects, flight: PendingCall, error: unknown): void {
  const { grant, settings } = s
  if (!grant) return
  const failures = grant.failures + 1
  const retryMs = settings.retryIntervalMs * grantedFraction(settings, grant.validForMs)
  // The first failure is always followed by another try, no matter how close the deadline is.
  const pauseMs = failures === 1 ? Math.min(retryMs, (deadlineOf(s) - flight.sentAtMs) / 2) : retryMs
  const renewAtMs = Math.max(heldNow(s), flight.sentAtMs + pauseMs)
  s.grant = { ...grant, failures, renewAtMs }
  effects.push({ type: 'renew-failed', term: grant.record.term, failures, error })
  if (failures >= settings.maxFailedRenewals && s.phase === 'leading') endLeadership(s, effects, 'expired')
}

// Ending

function endLeadership(
  s: MutableState,
  effects: Effects,
  reason: LossReason,
  { cooldownMs = 0, successor }: { readonly cooldownMs?: number; readonly successor?: string | undefined } = {},
): void {
  const voluntary = isVoluntaryEnd(reason)
  s.phase = 'ending'
  s.checkpoint = undefined
  s.ending = {
    reason,
    term: s.grant?.record.term ?? 0,
    next: reason === 'stopped' ? 'stop' : 'campaign',
    voluntary,
    told: false,
    drainUntilMs: voluntary ? s.nowMs + s.settings.drainTimeoutMs : Infinity,
    releaseUntilMs: undefined,
    cooldownMs,
    successor,
  }
  // I5: from now on no renewal counts, and none is sent.
  if (!voluntary) cancel(s, effects)
  effects.push({ type: 'ended', reason })
}

function windDown(s: MutableState, effects: Effects): void {
  const { ending } = s
  // I7: listeners of the end may still register work, no matter what else they call first.
  if (!ending?.told) return
  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)
  if (s.work > 0 && s.nowMs < ending.drainUntilMs) return ending.voluntary ? keepLease(s, effects) : undefined
  if (s.work > 0) effects.push({ type: 'error', error: unsettled(s, ending) })
  if (s.work > 0 && ending.next === 'campaign') return leaveToExpire(s, effects, ending)
  effects.push({ type: 'lost', term: ending.term, reason: ending.reason })
  if (s.work > 0) return finishEnding(s, effects)
  const release = ending.voluntary && s.grant && (ending.next === 'campaign' || s.settings.releaseOnStop)
  if (!release) return finishEnding(s, effects)
  // I7: the work has settled, so the lease may be released. A checkpoint that no renewal has written is lost.
  cancel(s, effects)
  s.checkpoint = undefined
  s.ending = { ...ending, releaseUntilMs: s.nowMs + releaseTimeoutOf(s.settings) }
  s.tryAtMs = s.nowMs
  releaseIfDue(s, effects)
}

/** Keeps renewing while work winds down, with the same deadline as before. */
function keepLease(s: MutableState, effects: Effects): void {
  if (s.grant && heldNow(s) >= deadlineOf(s)) {
    s.grant = { ...s.grant, renewAtMs: Infinity }
    s.checkpoint = undefined
  }
  renewIfDue(s, effects)
}

/**
 * I7: a lease is never released while its work is running. It expires instead, and the elector stays out of the
 * election until the work ends.
 */
function leaveToExpire(s: MutableState, effects: Effects, ending: Ending): void {
  cancel(s, effects)
  s.grant = undefined
  effects.push({ type: 'stepped-down' })
  s.ending = { ...ending, voluntary: false, drainUntilMs: Infinity }
}

function unsettled({ work, settings }: MutableState, { term }: Ending): TenureError {
  const pieces = work === 1 ? '1 piece of work has' : `${work} pieces of work have`
  const text = `${pieces} not settled within drainTimeoutMs (${settings.drainTimeoutMs} ms) after leadership of "${settings.election}" in term ${term} ended. The lease is not released and expires. Pass leadership.signal to long-running work.`
  return new TenureError('WORK_UNSETTLED', text)
}

function releaseIfDue(s: MutableState, effects: Effects): void {
  if (!s.grant || s.flight || s.nowMs < s.tryAtMs) return
  const successor = s.ending?.successor
  const claim = claimWithWriteId(s, effects, s.grant)
  send(s, effects, 'release', { ...claim, ...(successor !== undefined && { successor }) })
}

function releaseSettled(
  s: MutableState,
  effects: Effects,
  flight: PendingCall,
  input: Extract<Input, { call: number }>,
): void {
  const { grant, ending } = s
  const untilMs = ending?.releaseUntilMs
  if (!grant || untilMs === undefined) return
  if (input.type === 'failed') {
    s.tryAtMs = Math.max(s.nowMs, flight.startedAtMs + Math.min(s.settings.retryIntervalMs, releaseRetryIntervalMs))
    if (s.tryAtMs < untilMs) return
    effects.push({ type: 'release-failed', error: input.error })
  } else if (input.type === 'answer' && !input.outcome.ok) {
    const { record } = input.outcome
    const own = record?.attempt === grant.record.attempt && record.term === grant.record.term && !record.released
    noteRefusal(s, input.outcome)
    const adoptions = grant.adoptions + 1
    if (own && isCloned(s, record)) {
      disown(s, effects, record)
    } else if (own && s.nowMs < untilMs && adoptions <= maxImmediateRetries) {
      s.grant = { ...grant, record, adoptions }
      noteWriteId(s, record)
      s.tryAtMs = s.nowMs
      return
    }
  }
  finishEnding(s, effects)
}

function finishEnding(s: MutableState, effects: Effects): void {
  const { ending } = s
  if (!ending) return
  const goesOn = s.settings.until === 'stopped' || s.settings.until === 'unanswered'
  if (ending.next === 'stop' || !goesOn) return enterStopped(s, effects)
  if (ending.voluntary) effects.push({ type: 'stepped-down' })
  const leastMs = ending.successor === undefined ? 0 : handOverMs(s.settings)
  s.cooldownUntilMs = s.nowMs + Math.max(ending.cooldownMs, leastMs)
  enterStandby(s, effects)
}

// Stopping and stepping down

function stop(s: MutableState, effects: Effects): void {
  if (s.phase === 'leading') return endLeadership(s, effects, 'stopped')
  if (s.phase === 'ending' && s.ending) {
    const drainUntilMs = Math.min(s.ending.drainUntilMs, s.nowMs + s.settings.drainTimeoutMs)
    s.ending = { ...s.ending, next: 'stop', drainUntilMs }
    return
  }
  if (s.phase === 'idle') return enterStopped(s, effects)
  if (s.phase !== 'standby' || s.stopUntilMs !== undefined) return
  // A grant may be in flight. A short wait allows releasing it, so that others need not wait for it to expire.
  const granting = s.settings.releaseOnStop && s.attempt !== undefined
  s.stopUntilMs = granting ? s.nowMs + Math.min(maxUsefulAgeMs(s.settings), releaseCallTimeoutMs) : s.nowMs
  s.tryAtMs = s.nowMs
}

function finishStop(s: MutableState, effects: Effects, untilMs: number): void {
  if (s.nowMs >= untilMs) return enterStopped(s, effects)
  if (s.flight) return
  const abandoned = s.view?.record && isAbandoned(s, s.view.record) ? s.view.record : undefined
  if (!abandoned && !s.attempt) return enterStopped(s, effects)
  if (s.nowMs < s.tryAtMs) return
  if (abandoned) return send(s, effects, 'release', heldClaim(s, abandoned, effects.freshName()))
  send(s, effects, 'read')
}

function enterStopped(s: MutableState, effects: Effects): void {
  cancel(s, effects)
  if (s.watch === 'open') effects.push({ type: 'watch', open: false })
  s.watch = 'closed'
  s.phase = 'stopped'
  s.attempt = undefined
  s.grant = undefined
  s.ending = undefined
  effects.push({ type: 'stopped' })
}

function stepDown(s: MutableState, effects: Effects, cooldownMs: number, successor?: string): void {
  const reason = successor === undefined ? 'released' : 'handed-over'
  if (s.phase === 'leading') return endLeadership(s, effects, reason, { cooldownMs, successor })
  if (s.phase === 'ending' && s.ending) {
    s.ending = { ...s.ending, cooldownMs, successor: successor ?? s.ending.successor }
    // A step-down already in progress resolves both calls.
    if (!s.ending.voluntary) effects.push({ type: 'stepped-down' })
    return
  }
  s.cooldownUntilMs = s.nowMs + cooldownMs
  if (!s.flight) s.attempt = undefined
  effects.push({ type: 'stepped-down' })
}

// Calls

function send(s: MutableState, effects: Effects, verb: 'read'): void
function send(s: MutableState, effects: Effects, verb: 'acquire', claim: AcquireClaim): void
function send(s: MutableState, effects: Effects, verb: 'renew' | 'release', claim: HeldClaim): void
function send(s: MutableState, effects: Effects, verb: Call['verb'], claim?: AcquireClaim | HeldClaim): void {
  s.calls += 1
  const bounds = {
    read: contenderBoundMs(s, 'read'),
    acquire: contenderBoundMs(s, 'acquire'),
    renew: renewBoundMs(s),
    release: releaseBoundMs(s),
  }
  const checkpoint = verb === 'renew' ? s.checkpoint : undefined
  s.flight = { id: s.calls, verb, sentAtMs: heldNow(s), startedAtMs: s.nowMs, checkpoint }
  effects.push({ type: 'call', call: { id: s.calls, verb, boundMs: bounds[verb], claim } as Call })
}

function cancel(s: MutableState, effects: Effects): void {
  if (s.flight) effects.push({ type: 'cancel' })
  s.flight = undefined
}

/** Identifies a grant by everything the store compares, so that the call cannot affect any other grant (I2). */
function heldClaim(s: MutableState, { attempt, term, version }: LeaseRecord, writeId: string): HeldClaim {
  const { election, identity, leaseDurationMs } = s.settings
  return { election, holder: identity, attempt, term, version, leaseDurationMs, writeId }
}

/**
 * A claim on this elector's grant. Its write id is remembered, because a record may show that id before the answer
 * arrives, or without any answer.
 */
function claimWithWriteId(s: MutableState, effects: Effects, { record }: Grant): HeldClaim {
  const writeId = effects.freshName()
  s.own = s.own.map((own) =>
    own.id === record.attempt ? { ...own, sent: append(own.sent, writeId, sentWriteIdsLimit) } : own,
  )
  return heldClaim(s, record, writeId)
}

/**
 * I10: neither a lost call nor a slow store ends a leadership. The first try may take half of the time left until the
 * deadline, or as long as recent answers took. Later tries leave time for one more.
 */
function renewBoundMs(s: MutableState): number {
  const { settings, grant } = s
  const leftMs = deadlineOf(s) - heldNow(s)
  const retryMs = settings.retryIntervalMs * (grant ? grantedFraction(settings, grant.validForMs) : 1)
  const usualMs = s.answeredInMs * slowCallFactor
  if (!grant?.failures) return Math.max(leftMs / 2, Math.min(leftMs - retryMs / 2, usualMs))
  return Math.min(leftMs, Math.max(retryMs, leftMs - retryMs, usualMs))
}

/** The maximum age at which a grant is still useful, because there is time left to renew it. */
function maxUsefulAgeMs({ renewDeadlineMs, retryIntervalMs }: ElectionSettings): number {
  return renewDeadlineMs - retryIntervalMs
}

/** How long to keep trying to release a lease. */
function releaseTimeoutOf({ leaseDurationMs }: ElectionSettings): number {
  return Math.min(leaseDurationMs / 3, releaseTimeoutMs)
}

/** Leaves time for two tries, unless answers take longer. */
function releaseBoundMs({ settings, answeredInMs }: MutableState): number {
  return Math.min(releaseCallTimeoutMs, Math.max(releaseTimeoutOf(settings) / 2, answeredInMs * slowCallFactor))
}

/**
 * I10: a contender waits for an answer for as long as the answer would be useful. After an acquire, that leaves time to
 * read its outcome and to lead. A plain read has a short timeout, because it is soon repeated.
 */
function contenderBoundMs(s: MutableState, verb: 'read' | 'acquire'): number {
  const { settings, view } = s
  const { retryIntervalMs } = settings
  const giveUpInMs = answerDueMs(s) - s.nowMs
  const mostMs = Math.min(maxUsefulAgeMs(settings), giveUpInMs > 0 ? giveUpInMs : Infinity)
  const attempt = repeatableAttempt(s)
  if (!attempt && view) return Math.min(mostMs, Math.max(2 * retryIntervalMs, s.answeredInMs * slowCallFactor))
  const sinceMs = attempt ? heldNow(s) - attempt.firstSentAtMs : 0
  const leftMs = mostMs - sinceMs - (verb === 'acquire' ? retryIntervalMs : 0)
  return Math.min(mostMs, Math.max(retryIntervalMs, leftMs))
}

// Time and randomness

function heldNow(s: MutableState): number {
  return s.nowMs + s.sleptMs
}

function withJitter(effects: Effects, ms: number): number {
  return ms * (0.5 + effects.chance())
}
