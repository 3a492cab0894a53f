/**
 * The algorithm: a pure function from a state and an input to a state and effects. No I/O and no clock: the time, fresh
 * names and chance come with the input.
 *
 * What it does not guarantee: that work stops when leadership does. A process can be paused between asking whether it
 * leads and writing. Only a resource that checks the term (`tenure/fencing`) closes that gap.
 *
 * The rules name the invariant they keep:
 *  I1  Beliefs in leadership never overlap in real time.
 *  I2  Term k+1 is granted only after every belief in k ended, or k was released.
 *  I3  Terms rise; one term belongs to one attempt for ever.
 *  I4  A term is never used again.
 *  I5  An answer of an earlier attempt, or one after belief ended, changes nothing.
 *  I7  Started and stopped come in pairs; a lease is released only after the work settled.
 *  I10 A healthy candidate takes over in bounded time, and without a fault nothing changes.
 *
 * Two times flow through it. `nowMs` is monotonic and may stand still while the machine sleeps: a contender waits on
 * it, so a sleep only makes it wait longer. A holder counts `nowMs + sleptMs`, so a sleep always uses up its lease.
 */
import { messageOf } from '@tenure/internal/message'
import { isAnswer } from '@tenure/internal/store-answers'
import {
  canCarry,
  deadlineOf,
  isWatching,
  shareOf,
  type Attempt,
  type Call,
  type Draft,
  type Effect,
  type ElectionState,
  type Ending,
  type Flight,
  type GaveUp,
  type Grant,
  type Input,
  type OwnAttempt,
  type Settings,
  type Sight,
  type View,
} from './election-state.ts'
import { isTenureError, TenureError, type LossReason } from './errors.ts'
import { absentVersion, type AcquireClaim, type HeldClaim, type LeaseRecord, type Outcome } from './lease-store.ts'

const seenLimit = 8
const ownLimit = 8
/** More than one, because a store that failed over may have lost the newest. */
const seenMarksLimit = 8
/** A renewal that is applied only after so many later ones is taken for a clone's: that costs a term, never safety. */
const sentMarksLimit = 64
/** How often a refusal is answered at once before it is paced. */
const immediateTries = 3
/** Whoever stops waits so long at most to give a lease back, however long the lease is: for all tries, and for a call. */
const farewellMs = 10_000
const farewellCallMs = 5_000
const farewellPauseMs = 2_000
/** An answer may take so many times as long as the one before it. */
const slowerBy = 1.5

/** One step of the algorithm. */
export function step(state: ElectionState, input: Input): { state: ElectionState; effects: Effect[] } {
  const s: Draft = { ...state, nowMs: input.nowMs, sleptMs: input.sleptMs }
  const effects = new Effects(input)
  // I1, I5: whatever the input says, belief that ran out has ended before it is looked at.
  endIfOver(s, effects)
  take(s, effects, input)
  // It may have told of a shorter grant: nothing is sent on a belief that is over.
  endIfOver(s, effects)
  proceed(s, effects)
  return { state: s, effects: effects.list }
}

function endIfOver(s: Draft, effects: Effects): void {
  if (s.phase === 'leading' && heldNow(s) >= deadlineOf(s)) endLeadership(s, effects, 'expired')
}

/** What a step has to do so far, and the fresh name and the chance that it may use. */
class Effects {
  readonly list: Effect[] = []
  readonly #input: Input

  constructor(input: Input) {
    this.#input = input
  }

  push(effect: Effect): void {
    this.list.push(effect)
  }

  /** One per step: no step begins two writes. */
  freshName(): string {
    return this.#input.fresh()
  }

  /** At least 0 and below 1. */
  chance(): number {
    return this.#input.chance()
  }
}

function take(s: Draft, effects: Effects, input: Input): void {
  switch (input.type) {
    case 'start':
      if (s.phase !== 'idle') return
      return enterStandby(s, effects)
    case 'stop':
      return stop(s, effects)
    case 'step-down':
      return stepDown(s, effects, input.cooldownMs)
    case 'work':
      s.work = input.pending
      return
    case 'end-told':
      if (s.ending) s.ending = { ...s.ending, told: true }
      return
    case 'carry':
      if (!s.grant || !canCarry(s, heldNow(s))) return
      s.carry = input.text
      if (!s.flight) s.grant = { ...s.grant, renewAtMs: heldNow(s) }
      return
    case 'observed': {
      if (s.phase !== 'standby') return
      const { view } = s
      observe(s, effects, input.record, { watched: true })
      // An event may tell of the past, so it does not show that a lease is alive. The store itself is asked at once.
      if (s.settings.until === 'busy' && s.view !== view) s.tryAtMs = s.nowMs
      // I10: a look that hangs must not keep it from a lease that is free.
      if (s.flight?.verb === 'read' && !repeatable(s) && s.view && isFree(s.view)) cancel(s, effects)
      return
    }
    case 'watch-ended':
      if (s.watch !== 'open') return
      s.watch = 'broken'
      s.rewatchAtMs = s.nowMs + jittered(effects, s.settings.retryIntervalMs)
      // Only ever sooner: a watch that ends as often as it is opened must not put the next look off again and again.
      if (s.phase === 'standby' && s.view) {
        const { tryAtMs } = s
        schedule(s, effects, false)
        s.tryAtMs = Math.min(tryAtMs, s.tryAtMs)
      }
      return
    case 'answer':
    case 'found':
    case 'failed': {
      // I5: only the answer of the call in flight counts; a late one, or one of a cancelled call, is dropped.
      const { flight } = s
      if (flight?.id !== input.call) return
      s.flight = undefined
      if (input.type !== 'failed') s.answeredInMs = tookMs(s, flight)
      return settleCall(s, effects, flight, input)
    }
  }
}

/** An answer that waited while this process stood still says nothing of the store: none counts for more than a lease. */
function tookMs(s: Draft, { startedAtMs, verb }: Flight): number {
  return Math.min(s.nowMs - startedAtMs, s.settings.leaseDurationMs) / (verb === 'acquire' ? 2 : 1)
}

function settleCall(s: Draft, effects: Effects, flight: Flight, input: Extract<Input, { call: number }>): void {
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
  // An event that overtook this answer may be the newer one, and will not come again: the store is asked at once.
  const overtaken = before !== undefined && before.seenAtMs > flight.startedAtMs && !showsSame(before, s.view)
  if (overtaken && !s.flight) s.tryAtMs = s.nowMs
}

function showsSame(one: View, other: View | undefined): boolean {
  return one.record?.version === other?.record?.version && one.record?.released === other?.record?.released
}

function abandonedReleased(s: Draft, effects: Effects, outcome: Outcome): void {
  observe(s, effects, outcome.record, outcome.ok ? {} : outcome)
  paceRefusals(s, effects)
}

/** Does what is due now. Everything that can be due is decided here, so that no input can forget it. */
function proceed(s: Draft, effects: Effects): void {
  if (s.phase === 'leading') renewIfDue(s, effects)
  if (s.phase === 'ending') windDown(s, effects)
  if (s.phase === 'standby') contend(s, effects)
}

// Contending

function enterStandby(s: Draft, effects: Effects): void {
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

function contend(s: Draft, effects: Effects): void {
  if (s.watch === 'broken' && s.nowMs >= s.rewatchAtMs) openWatch(s, effects)
  if (s.stopUntilMs !== undefined) return finishStop(s, effects, s.stopUntilMs)
  if (s.flight || s.nowMs < s.tryAtMs) return
  const { view } = s
  if (view?.record && isAbandoned(s, view.record)) {
    return send(s, effects, 'release', heldClaim(s, view.record, effects.freshName()))
  }
  if (s.nowMs < s.cooldownUntilMs) {
    // Who is told of nothing looks, to know who leads.
    const lookAtMs = isWatching(s) ? Infinity : s.repliedAtMs + s.settings.retryIntervalMs
    if (s.nowMs >= lookAtMs) return send(s, effects, 'read')
    s.tryAtMs = Math.min(lookAtMs, s.cooldownUntilMs)
    return
  }
  // An acquire of unknown outcome is resolved by reading before anything else is tried.
  if (s.attempt) return send(s, effects, 'read')
  if (view && !isFree(view) && !mayHaveExpired(s, view)) return send(s, effects, 'read')
  sendAcquire(s, effects)
}

function sendAcquire(s: Draft, effects: Effects): void {
  const { settings, view } = s
  // I3: only a call of unknown outcome is repeated with the same attempt. Belief will count from its first transmission.
  s.attempt ??= newAttempt(s, effects.freshName())
  const expired = view && hasExpired(s, view) ? { expiredVersion: view.record?.version ?? absentVersion } : {}
  send(s, effects, 'acquire', {
    election: settings.election,
    holder: settings.identity,
    attempt: s.attempt.id,
    leaseDurationMs: settings.leaseDurationMs,
    // I2, I4: nothing is granted after a term this elector does not know of.
    afterTerm: s.highestTerm,
    ...expired,
    metadata: settings.metadata,
    mark: s.attempt.id,
  })
}

function newAttempt(s: Draft, id: string): Attempt {
  s.own = [...s.own.slice(1 - ownLimit), { id, seen: [], sent: [id] }]
  return { id, firstSentAtMs: heldNow(s), afterTerm: s.highestTerm, floorTerm: s.highestTerm }
}

function acquireAnswered(s: Draft, effects: Effects, outcome: Outcome): void {
  if (!outcome.ok) {
    s.attempt = undefined
    // I2: somebody has led since, so what was seen before tells nothing of that lease.
    if (outcome.highestTerm > s.highestTerm) s.view = undefined
    s.highestTerm = Math.max(s.highestTerm, outcome.highestTerm)
    const before = s.confirmed
    observe(s, effects, outcome.record, outcome)
    paceRefusals(s, effects)
    giveUpIfBusy(s, effects, before, outcome)
    return giveUpIfRefused(s, effects, outcome.record)
  }
  claimGrant(s, effects, outcome.record, outcome.validForMs)
}

/**
 * Somebody who is not to wait stops when a lease of others is alive for certain: the store judged it, or it was written
 * between two answers of the store. A lease that is only there may be that of a leader who crashed: it is waited out.
 */
function giveUpIfBusy(
  s: Draft,
  effects: Effects,
  before: Sight | undefined,
  { record, retryAfterMs = 0 }: { readonly record?: LeaseRecord | undefined; readonly retryAfterMs?: number },
): void {
  if (s.settings.until !== 'busy' || s.phase !== 'standby') return
  if (!record || record.released || ownOf(s, record)) return
  const isWrittenSince = before !== undefined && before.key !== sightKey(record)
  if (retryAfterMs > 0 || isWrittenSince) giveUp(s, effects, { record })
}

function giveUpIfRefused(s: Draft, effects: Effects, record: LeaseRecord | undefined): void {
  // A lease that is free is refused only to those who did not know the newest term. They know it now.
  const isFreeNow = s.view && (isFree(s.view) || mayHaveExpired(s, s.view))
  if (s.settings.until === 'refused' && !isFreeNow) giveUp(s, effects, { record })
}

function giveUp(s: Draft, effects: Effects, why: GaveUp): void {
  s.gaveUp = why
  stop(s, effects)
}

/** A refusal may be answered at once a few times; a store that refuses on and on must not be flooded. */
function paceRefusals(s: Draft, effects: Effects): void {
  // A wait that only keeps a fleet's tries apart is none.
  if (s.tryAtMs > s.nowMs + 1 + watchedSpreadMs(s)) {
    s.refusals = 0
    return
  }
  s.refusals += 1
  if (s.refusals > immediateTries || !s.view) s.tryAtMs = s.nowMs + jittered(effects, s.settings.retryIntervalMs)
}

/** A read: it resolves an acquire of unknown outcome, or is a poll. */
function found(s: Draft, effects: Effects, record: LeaseRecord | undefined): void {
  const { attempt } = s
  if (attempt && record?.attempt === attempt.id && !record.released) {
    return claimGrant(s, effects, record, record.leaseDurationMs)
  }
  const before = s.confirmed
  observe(s, effects, record, {})
  if (!attempt) return giveUpIfBusy(s, effects, before, { record })
  const isGivenUp = isOld(s, attempt)
  if (isGivenUp || s.nowMs < s.cooldownUntilMs) s.attempt = undefined
  // Not applied so far, or already over. It may be repeated only if it could be granted now.
  const free = !s.view || isFree(s.view) || mayHaveExpired(s, s.view)
  if (!free || record?.attempt === attempt.id || s.stopUntilMs !== undefined) s.attempt = undefined
  // After an outage the store is asked as at the start: one with a clock of its own may know that the lease has expired.
  if (s.attempt || (isGivenUp && mayAsk(s))) sendAcquire(s, effects)
}

/** Whether nothing else has to be done, or waited for, before an acquire. */
function mayAsk(s: Draft): boolean {
  if (s.nowMs < s.cooldownUntilMs || s.stopUntilMs !== undefined) return false
  return !s.view?.record || !isAbandoned(s, s.view.record)
}

function claimGrant(s: Draft, effects: Effects, record: LeaseRecord, grantedForMs: number): void {
  const { attempt, settings } = s
  const validForMs = beliefMs(settings, record, grantedForMs)
  const sound = record.attempt === attempt?.id && record.term > attempt.floorTerm && !record.released
  s.attempt = undefined
  if (sound && isCloned(s, record)) {
    disown(s, effects, record)
    return observe(s, effects, record, {})
  }
  if (!sound && isOvertaken(attempt, record)) {
    // I5: it is not even shown, because a newer record is. The store itself is asked at once: an event may tell of the past.
    s.tryAtMs = s.nowMs
    return giveUpIfRefused(s, effects, s.view?.record)
  }
  if (!sound) {
    // I4: a grant at or below a term that was already seen is never believed.
    effects.push({ type: 'error', error: unsoundGrant(settings.election, record) })
    observe(s, effects, record, {})
    s.tryAtMs = s.nowMs + jittered(effects, settings.retryIntervalMs)
    return
  }
  s.grant = {
    record,
    // I1: the lease counts from the first transmission, never from the reply, a retry or the read that resolved it.
    sentAtMs: attempt.firstSentAtMs,
    validForMs,
    failures: 0,
    adoptions: 0,
    renewAtMs: attempt.firstSentAtMs + renewIntervalMs(settings, validForMs),
  }
  const unwanted = s.stopUntilMs !== undefined || s.nowMs < s.cooldownUntilMs
  if (unwanted || heldNow(s) >= deadlineOf(s)) {
    // I5: too late to lead, so it is an abandoned attempt like any other and is given back.
    s.grant = undefined
    return observe(s, effects, record, {})
  }
  s.highestTerm = Math.max(s.highestTerm, record.term)
  noteMark(s, record)
  s.phase = 'leading'
  // What it knew of others is old when it contends again: then it asks at once.
  s.view = undefined
  s.repliedAtMs = -Infinity
  s.seen = []
  s.refusals = 0
  if (s.watch === 'open') effects.push({ type: 'watch', open: false })
  s.watch = 'closed'
  announce(s, effects, record)
  effects.push({ type: 'elected', record })
}

/**
 * Whether an event of a later term has overtaken this grant, as after a stall or a sleep. The lease ran out meanwhile, and
 * the store did nothing wrong: it would have if the term was known before it was asked, or is that of another attempt.
 */
function isOvertaken(attempt: Attempt | undefined, { attempt: id, term, released }: LeaseRecord): boolean {
  return id === attempt?.id && !released && attempt.afterTerm < term && term < attempt.floorTerm
}

function unsoundGrant(election: string, { term }: LeaseRecord): TenureError {
  const text = `The store granted "${election}" with term ${term}, which is not above every term seen, or with another attempt. It cannot be trusted with leadership.`
  return new TenureError('RECORD_INVALID', text)
}

function contenderFailed(s: Draft, effects: Effects, flight: Flight, error: unknown): void {
  effects.push({ type: 'error', error })
  s.tryAtMs = Math.max(s.nowMs, flight.startedAtMs + jittered(effects, s.settings.retryIntervalMs))
  // One that is old is kept until the store answers: an outage leaves one attempt whose outcome is unknown, not dozens, so
  // that a late grant of it is recognized, and released.
  if (s.nowMs < s.cooldownUntilMs) s.attempt = undefined
  if (flight.verb !== 'read') s.writeFailedAtMs ??= flight.startedAtMs
  if (s.settings.until === 'refused') giveUp(s, effects, { error })
  // A try with less time than this would end with a timeout, which hides what is wrong with the store.
  else if (s.tryAtMs + s.settings.retryIntervalMs / 2 >= answerDueMs(s))
    giveUp(s, effects, { error: unanswered(s, error) })
  if (s.stopUntilMs !== undefined) s.stopUntilMs = s.nowMs
}

/** When an elector that does not wait for a store without end gives it up, unless it answers before. */
function answerDueMs({ settings, contendsSinceMs, repliedAtMs, writeFailedAtMs = Infinity }: Draft): number {
  if (settings.until !== 'busy' && settings.until !== 'unanswered') return Infinity
  return Math.max(contendsSinceMs, Math.min(repliedAtMs, writeFailedAtMs)) + settings.leaseDurationMs
}

function noteAnswer(s: Draft, reply: { readonly isWrite: boolean; readonly isOk: boolean }): void {
  const known = { hasWriteFailed: s.writeFailedAtMs !== undefined, isHeld: isHeldByOther(s) }
  if (isAnswer(reply, known)) s.writeFailedAtMs = undefined
}

/** Whether another process has a live lease, as far as was seen. */
export function isHeldByOther(s: ElectionState): boolean {
  const { view } = s
  return view?.record !== undefined && !isFree(view) && !ownOf(s, view.record) && !mayHaveExpired(s, view)
}

function unanswered(s: Draft, cause: unknown): TenureError {
  const { settings, writeFailedAtMs, repliedAtMs } = s
  const isReadable = writeFailedAtMs !== undefined && repliedAtMs > writeFailedAtMs
  const what = isReadable ? 'could be read, but nothing was written to it' : 'did not answer'
  const silentMs = s.nowMs - (answerDueMs(s) - settings.leaseDurationMs)
  const text = `The store of "${settings.election}" ${what} for ${Math.round(silentMs)} ms: ${messageOf(cause)}`
  const { code, retryable } = isTenureError(cause) ? cause : ({ code: 'BACKEND_UNAVAILABLE', retryable: true } as const)
  return new TenureError(code, text, { retryable, cause })
}

/** An acquire is repeated only while a grant of it would leave time to lead; after that it is given up for good. */
function isOld(s: Draft, { firstSentAtMs }: Attempt): boolean {
  return heldNow(s) >= firstSentAtMs + usefulMs(s.settings)
}

/** The acquire of unknown outcome that may be sent again, or whose grant would still be of use. */
function repeatable(s: Draft): Attempt | undefined {
  return s.attempt && !isOld(s, s.attempt) ? s.attempt : undefined
}

/** Takes note of what a reply or a watch shows. */
function observe(
  s: Draft,
  effects: Effects,
  record: LeaseRecord | undefined,
  from: { readonly watched?: boolean; readonly retryAfterMs?: number },
): void {
  const retryAtMs = from.retryAfterMs === undefined ? undefined : s.nowMs + from.retryAfterMs
  if (record) {
    // Not by an event, which may tell of the past: of an own renewal that was long ago, say.
    if (!from.watched && isCloned(s, record)) disown(s, effects, record)
    const key = sightKey(record)
    const known = s.confirmed?.key === key ? s.confirmed : s.seen.find((sight) => sight.key === key)
    // A replayed event is news of the past. A reply is the store's word and always counts.
    if (from.watched && known) return
    if (from.watched && record.term < s.highestTerm) {
      // News of the past too, or somebody deleted the record and began anew below: then only the store itself can tell.
      s.tryAtMs = Math.min(s.tryAtMs, s.nowMs + jittered(effects, s.settings.retryIntervalMs))
      return
    }
    const sight = known ?? { key, atMs: s.nowMs }
    if (!known) s.seen = [...s.seen.slice(1 - seenLimit), sight]
    if (!from.watched) s.confirmed = sight
    noteRecord(s, record)
    const askAtMs = retryAtMs ?? (known || from.watched ? undefined : unshownEndMs(s))
    s.view = { record, seenAtMs: sight.atMs, holdsForMs: durationOf(s, record), retryAtMs: askAtMs }
    // An own attempt is announced when it leads. A grant of one that was given up elects nobody.
    if (!record.released && !ownOf(s, record)) announce(s, effects, record)
  } else if (s.settings.terms && (s.highestTerm > 0 || s.view)) {
    // I2: a record that is gone does not end the lease it told of, nor one that was granted unseen after a release.
    const gone = s.view && !s.view.record ? s.view : undefined
    s.view = gone
      ? { ...gone, retryAtMs: retryAtMs ?? gone.retryAtMs }
      : { record: undefined, seenAtMs: s.nowMs, holdsForMs: from.retryAfterMs ?? heldForMs(s), retryAtMs }
  } else {
    s.view = undefined
  }
  if (!from.watched) s.repliedAtMs = s.nowMs
  // Not before the first answer: who wins at once needs no watch.
  if (s.watch === 'closed' && s.stopUntilMs === undefined) openWatch(s, effects)
  // An acquire of unknown outcome is looked into first: news must not put that off.
  if (!from.watched || !s.attempt) schedule(s, effects, from.watched ?? false)
  else if (record?.attempt === s.attempt.id) s.tryAtMs = s.nowMs
}

function sightKey({ version, released }: LeaseRecord): string {
  return released ? `${version} released` : version
}

/**
 * A version that the watch has not shown is news: renewals go unseen, as where they are written in another cluster. The
 * first sight of it may be late, so the store is asked when the version before would have run out (I10): it may know.
 */
function unshownEndMs({ watch, view, nowMs }: Draft): number | undefined {
  if (watch !== 'open' || !view?.record || isFree(view)) return undefined
  const endMs = view.seenAtMs + view.holdsForMs
  return endMs > nowMs ? endMs : undefined
}

/** I2, I4: remembers what every record tells, whatever call or event showed it, for as long as the elector lives. */
function noteRecord(s: Draft, record: LeaseRecord): void {
  s.highestTerm = Math.max(s.highestTerm, record.term)
  s.lastDurationMs = validDuration(record.leaseDurationMs) ?? s.lastDurationMs
  const { attempt } = s
  if (!attempt || record.attempt === attempt.id) return
  s.attempt = { ...attempt, floorTerm: Math.max(attempt.floorTerm, record.term) }
}

/** Decides when to try next: at once if the lease is free, else at the moment it runs out (I10). */
function schedule(s: Draft, effects: Effects, watched: boolean): void {
  const { view, settings } = s
  const { leaseDurationMs, retryIntervalMs } = settings
  if (!view || (view.record && isAbandoned(s, view.record))) {
    s.tryAtMs = s.nowMs
  } else if (isFree(view)) {
    s.tryAtMs = s.nowMs + (watched ? (effects.chance() * leaseDurationMs) / 5000 : 0)
  } else {
    const watching = s.watch === 'open'
    const spreadMs = watching ? watchedSpreadMs(s) : retryIntervalMs
    const expiryMs = (view.retryAtMs ?? view.seenAtMs + view.holdsForMs) + effects.chance() * spreadMs
    // A watch may fall silent, or tell of the past for ever: now and then the store itself is asked.
    const askMs = watching
      ? s.repliedAtMs + 2 * jittered(effects, view.holdsForMs)
      : s.nowMs + jittered(effects, retryIntervalMs)
    s.tryAtMs = Math.max(s.nowMs, Math.min(expiryMs, askMs))
  }
}

/** Over how long the tries of a fleet are spread that watches, and so waits for the same moment. */
function watchedSpreadMs({ settings }: Draft): number {
  return settings.leaseDurationMs / 200
}

function announce(s: Draft, effects: Effects, record: LeaseRecord): void {
  if (record.term <= s.announcedTerm) return
  s.announcedTerm = record.term
  effects.push({ type: 'new-leader', record })
}

function isFree(view: View): boolean {
  return view.record?.released ?? false
}

/** The whole duration of this very version has passed here, so its holder's belief has ended (I2). */
function hasExpired(s: ElectionState, view: View): boolean {
  return s.nowMs >= view.seenAtMs + view.holdsForMs
}

function mayHaveExpired(s: ElectionState, view: View): boolean {
  return hasExpired(s, view) || (view.retryAtMs !== undefined && s.nowMs >= view.retryAtMs)
}

/**
 * An own attempt that is not the current one: given up, too late, or of a leadership that ended. I2: only with a mark that
 * was sent from here. A store that lost the mark, as a service does that restarts, may show the lease of a clone.
 */
function isAbandoned(s: Draft, record: LeaseRecord): boolean {
  return !record.released && record.attempt !== s.attempt?.id && hasOwnMark(s, record)
}

function hasOwnMark(s: Draft, record: LeaseRecord): boolean {
  const own = ownOf(s, record)
  const { mark } = record
  return own !== undefined && typeof mark === 'string' && (own.seen.includes(mark) || own.sent.includes(mark))
}

function ownOf(s: ElectionState, record: LeaseRecord): OwnAttempt | undefined {
  return s.own.find(({ id }) => id === record.attempt)
}

/** Whether an own attempt's record was written by somebody else. Stores of before keep no marks: then it cannot be told. */
function isCloned(s: Draft, record: LeaseRecord): boolean {
  const marked = typeof record.mark === 'string' && !record.released
  return marked && ownOf(s, record) !== undefined && !hasOwnMark(s, record)
}

/** What was sent before it named an earlier version, so it can be applied no more. What was sent after it still can. */
function noteMark(s: Draft, { attempt, mark }: LeaseRecord): void {
  if (typeof mark !== 'string') return
  s.own = s.own.map((own) => {
    if (own.id !== attempt) return own
    const seen = own.seen.includes(mark) ? own.seen : [...own.seen.slice(1 - seenMarksLimit), mark]
    return { ...own, seen, sent: own.sent.slice(own.sent.indexOf(mark) + 1) }
  })
}

/**
 * I2: an own attempt's record with a mark that was never sent from here was written by a clone of this process, such as
 * the other of two restored from one snapshot. The lease is the clone's now: it is neither renewed nor released from
 * here, and the next campaign has an attempt that the clone cannot know.
 */
function disown(s: Draft, effects: Effects, record: LeaseRecord): void {
  s.own = s.own.filter(({ id }) => id !== record.attempt)
  if (s.attempt?.id === record.attempt) s.attempt = undefined
  if (s.grant?.record.attempt === record.attempt) s.grant = undefined
  effects.push({ type: 'error', error: cloned(s.settings.election, record) })
}

function cloned(election: string, { holder, term }: LeaseRecord): TenureError {
  const text = `Another process renews the lease of "${election}" that "${holder}" was granted here in term ${term}: a copy of this process, restored from a snapshot of its machine perhaps; or the store has lost its newest writes. This process no longer leads with that term and campaigns again.`
  return new TenureError('CLONED', text)
}

function validDuration(ms: number): number | undefined {
  return ms > 0 && Number.isFinite(ms) ? ms : undefined
}

/** How long a version of a record holds: what it says, or else what {@link heldForMs} does. */
function durationOf(s: Draft, { leaseDurationMs }: LeaseRecord): number {
  return validDuration(leaseDurationMs) ?? heldForMs(s)
}

/** How long a lease of unknown duration counts as held. */
function heldForMs(s: Draft): number {
  return Math.max(s.settings.leaseDurationMs, s.lastDurationMs)
}

function openWatch(s: Draft, effects: Effects): void {
  if (s.watch === 'open' || !s.settings.canWatch) return
  s.watch = 'open'
  effects.push({ type: 'watch', open: true })
}

// Leading

function renewIfDue(s: Draft, effects: Effects): void {
  const { grant } = s
  if (!grant || s.flight || heldNow(s) < grant.renewAtMs) return
  const claim = markedClaim(s, effects, grant)
  send(s, effects, 'renew', { ...claim, ...(s.carry !== undefined && { carry: s.carry }) })
}

function renewAnswered(s: Draft, effects: Effects, flight: Flight, outcome: Outcome): void {
  const { grant, settings } = s
  // I5: an answer after belief ended extends nothing.
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
      // I1: from the moment it was sent.
      sentAtMs: flight.sentAtMs,
      validForMs,
      failures: 0,
      adoptions: 0,
      renewAtMs: s.carry === flight.carry ? flight.sentAtMs + renewIntervalMs(settings, validForMs) : heldNow(s),
    }
    noteMark(s, record)
    effects.push({ type: 'renewed', record })
    if (flight.carry === undefined) return
    if (flight.carry === s.carry) s.carry = undefined
    effects.push({ type: 'carried', text: flight.carry })
  } else if (own) {
    // An earlier renewal was applied and its reply lost, or someone touched the record. No loss, and no extension.
    const adoptions = grant.adoptions + 1
    const renewAtMs = heldNow(s) + (adoptions > immediateTries ? settings.retryIntervalMs : 0)
    s.grant = { ...grant, record, adoptions, renewAtMs }
    noteMark(s, record)
  } else {
    if (s.phase === 'leading') endLeadership(s, effects, 'superseded')
    s.grant = undefined
    noteRefusal(s, outcome)
  }
}

function noteRefusal(s: Draft, outcome: Outcome): void {
  if (!outcome.ok) s.highestTerm = Math.max(s.highestTerm, outcome.highestTerm)
  if (outcome.record) noteRecord(s, outcome.record)
}

/** I2: others wait for as long as the record says, so its writer does not believe for longer; a missing duration is none. */
function beliefMs(settings: Settings, { leaseDurationMs }: LeaseRecord, grantedForMs: number): number {
  return Math.min(grantedForMs, leaseDurationMs, settings.leaseDurationMs)
}

function renewIntervalMs(settings: Settings, validForMs: number): number {
  return settings.renewIntervalMs * shareOf(settings, validForMs)
}

/** One failed renewal never ends leadership; the deadline always does, a count if one is set. */
function renewFailed(s: Draft, effects: Effects, flight: Flight, error: unknown): void {
  const { grant, settings } = s
  if (!grant) return
  const failures = grant.failures + 1
  const retryMs = settings.retryIntervalMs * shareOf(settings, grant.validForMs)
  // The first failure is followed by another try, however near the deadline is.
  const pauseMs = failures === 1 ? Math.min(retryMs, (deadlineOf(s) - flight.sentAtMs) / 2) : retryMs
  const renewAtMs = Math.max(heldNow(s), flight.sentAtMs + pauseMs)
  s.grant = { ...grant, failures, renewAtMs }
  effects.push({ type: 'renew-failed', term: grant.record.term, failures, error })
  if (failures >= settings.maxFailedRenewals && s.phase === 'leading') endLeadership(s, effects, 'expired')
}

// Ending

function endLeadership(s: Draft, effects: Effects, reason: LossReason, cooldownMs = 0): void {
  const voluntary = reason === 'released' || reason === 'stopped'
  s.phase = 'ending'
  s.carry = undefined
  s.ending = {
    reason,
    term: s.grant?.record.term ?? 0,
    next: reason === 'stopped' ? 'stop' : 'campaign',
    voluntary,
    told: false,
    drainUntilMs: voluntary ? s.nowMs + s.settings.drainTimeoutMs : Infinity,
    releaseUntilMs: undefined,
    cooldownMs,
  }
  // I5: no renewal counts any more, and none is sent.
  if (!voluntary) cancel(s, effects)
  effects.push({ type: 'ended', reason })
}

function windDown(s: Draft, effects: Effects): void {
  const { ending } = s
  // I7: what listens to the end may still hand in work, whatever else it calls before.
  if (!ending?.told) return
  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)
  if (s.work > 0 && s.nowMs < ending.drainUntilMs) return ending.voluntary ? keepLease(s, effects) : undefined
  if (s.work > 0) effects.push({ type: 'error', error: unsettled(s, ending) })
  if (s.work > 0 && ending.next === 'campaign') return leaveToExpire(s, effects, ending)
  effects.push({ type: 'lost', term: ending.term, reason: ending.reason })
  if (s.work > 0) return finishEnding(s, effects)
  const release = ending.voluntary && s.grant && (ending.next === 'campaign' || s.settings.releaseOnStop)
  if (!release) return finishEnding(s, effects)
  // I7: the work has settled, so the lease may be given back.
  cancel(s, effects)
  s.ending = { ...ending, releaseUntilMs: s.nowMs + farewellOf(s.settings) }
  s.tryAtMs = s.nowMs
  releaseIfDue(s, effects)
}

/** Renewal goes on while work winds down, by the same deadline as before. */
function keepLease(s: Draft, effects: Effects): void {
  if (s.grant && heldNow(s) >= deadlineOf(s)) {
    s.grant = { ...s.grant, renewAtMs: Infinity }
    s.carry = undefined
  }
  renewIfDue(s, effects)
}

/** I7: work that does not settle is never released under. Its lease runs out, and its elector stays out until it ends. */
function leaveToExpire(s: Draft, effects: Effects, ending: Ending): void {
  cancel(s, effects)
  s.grant = undefined
  effects.push({ type: 'stepped-down' })
  s.ending = { ...ending, voluntary: false, drainUntilMs: Infinity }
}

function unsettled({ work, settings }: Draft, { term }: Ending): TenureError {
  const pieces = work === 1 ? '1 piece of work has' : `${work} pieces of work have`
  const text = `${pieces} not settled within drainTimeoutMs (${settings.drainTimeoutMs} ms) after "${settings.election}" in term ${term} ended. The lease is left to run out. Hand leadership.signal to what takes long.`
  return new TenureError('WORK_UNSETTLED', text)
}

function releaseIfDue(s: Draft, effects: Effects): void {
  if (!s.grant || s.flight || s.nowMs < s.tryAtMs) return
  send(s, effects, 'release', markedClaim(s, effects, s.grant))
}

function releaseSettled(s: Draft, effects: Effects, flight: Flight, input: Extract<Input, { call: number }>): void {
  const { grant, ending } = s
  const untilMs = ending?.releaseUntilMs
  if (!grant || untilMs === undefined) return
  if (input.type === 'failed') {
    s.tryAtMs = Math.max(s.nowMs, flight.startedAtMs + Math.min(s.settings.retryIntervalMs, farewellPauseMs))
    if (s.tryAtMs < untilMs) return
    effects.push({ type: 'release-failed', error: input.error })
  } else if (input.type === 'answer' && !input.outcome.ok) {
    const { record } = input.outcome
    const own = record?.attempt === grant.record.attempt && record.term === grant.record.term && !record.released
    noteRefusal(s, input.outcome)
    const adoptions = grant.adoptions + 1
    if (own && isCloned(s, record)) {
      disown(s, effects, record)
    } else if (own && s.nowMs < untilMs && adoptions <= immediateTries) {
      s.grant = { ...grant, record, adoptions }
      noteMark(s, record)
      s.tryAtMs = s.nowMs
      return
    }
  }
  finishEnding(s, effects)
}

function finishEnding(s: Draft, effects: Effects): void {
  const { ending } = s
  if (!ending) return
  const goesOn = s.settings.until === 'stopped' || s.settings.until === 'unanswered'
  if (ending.next === 'stop' || !goesOn) return enterStopped(s, effects)
  if (ending.voluntary) effects.push({ type: 'stepped-down' })
  s.cooldownUntilMs = s.nowMs + ending.cooldownMs
  enterStandby(s, effects)
}

// Stopping and stepping down

function stop(s: Draft, effects: Effects): void {
  if (s.phase === 'leading') return endLeadership(s, effects, 'stopped')
  if (s.phase === 'ending' && s.ending) {
    const drainUntilMs = Math.min(s.ending.drainUntilMs, s.nowMs + s.settings.drainTimeoutMs)
    s.ending = { ...s.ending, next: 'stop', drainUntilMs }
    return
  }
  if (s.phase === 'idle') return enterStopped(s, effects)
  if (s.phase !== 'standby' || s.stopUntilMs !== undefined) return
  // A grant may be on its way: a short wait for it lets it be given back instead of running out.
  const granting = s.settings.releaseOnStop && s.attempt !== undefined
  s.stopUntilMs = granting ? s.nowMs + Math.min(usefulMs(s.settings), farewellCallMs) : s.nowMs
  s.tryAtMs = s.nowMs
}

function finishStop(s: Draft, effects: Effects, untilMs: number): void {
  if (s.nowMs >= untilMs) return enterStopped(s, effects)
  if (s.flight) return
  const abandoned = s.view?.record && isAbandoned(s, s.view.record) ? s.view.record : undefined
  if (!abandoned && !s.attempt) return enterStopped(s, effects)
  if (s.nowMs < s.tryAtMs) return
  if (abandoned) return send(s, effects, 'release', heldClaim(s, abandoned, effects.freshName()))
  send(s, effects, 'read')
}

function enterStopped(s: Draft, effects: Effects): void {
  cancel(s, effects)
  if (s.watch === 'open') effects.push({ type: 'watch', open: false })
  s.watch = 'closed'
  s.phase = 'stopped'
  s.attempt = undefined
  s.grant = undefined
  s.ending = undefined
  effects.push({ type: 'stopped' })
}

function stepDown(s: Draft, effects: Effects, cooldownMs: number): void {
  if (s.phase === 'leading') return endLeadership(s, effects, 'released', cooldownMs)
  if (s.phase === 'ending' && s.ending) {
    s.ending = { ...s.ending, cooldownMs }
    // One that is already under way answers for both.
    if (!s.ending.voluntary) effects.push({ type: 'stepped-down' })
    return
  }
  s.cooldownUntilMs = s.nowMs + cooldownMs
  if (!s.flight) s.attempt = undefined
  effects.push({ type: 'stepped-down' })
}

// Calls

function send(s: Draft, effects: Effects, verb: 'read'): void
function send(s: Draft, effects: Effects, verb: 'acquire', claim: AcquireClaim): void
function send(s: Draft, effects: Effects, verb: 'renew' | 'release', claim: HeldClaim): void
function send(s: Draft, effects: Effects, verb: Call['verb'], claim?: AcquireClaim | HeldClaim): void {
  s.calls += 1
  const bounds = {
    read: contenderBoundMs(s, 'read'),
    acquire: contenderBoundMs(s, 'acquire'),
    renew: renewBoundMs(s),
    release: releaseBoundMs(s),
  }
  const carry = verb === 'renew' ? s.carry : undefined
  s.flight = { id: s.calls, verb, sentAtMs: heldNow(s), startedAtMs: s.nowMs, carry }
  effects.push({ type: 'call', call: { id: s.calls, verb, boundMs: bounds[verb], claim } as Call })
}

function cancel(s: Draft, effects: Effects): void {
  if (s.flight) effects.push({ type: 'cancel' })
  s.flight = undefined
}

/** Names a grant by everything the store compares, so that it can touch nothing else (I2). */
function heldClaim(s: Draft, { attempt, term, version }: LeaseRecord, mark: string): HeldClaim {
  const { election, identity, leaseDurationMs } = s.settings
  return { election, holder: identity, attempt, term, version, leaseDurationMs, mark }
}

/** A claim on the own grant, whose mark is remembered: the record may show it before, or without, an answer. */
function markedClaim(s: Draft, effects: Effects, { record }: Grant): HeldClaim {
  const mark = effects.freshName()
  s.own = s.own.map((own) =>
    own.id === record.attempt ? { ...own, sent: [...own.sent.slice(1 - sentMarksLimit), mark] } : own,
  )
  return heldClaim(s, record, mark)
}

/**
 * I10: neither a call that gets lost nor a store that is slow ends a leadership. The first try may take half of what is
 * left to the deadline, or as long as answers have been taking; those after it leave time for one more.
 */
function renewBoundMs(s: Draft): number {
  const { settings, grant } = s
  const leftMs = deadlineOf(s) - heldNow(s)
  const retryMs = settings.retryIntervalMs * (grant ? shareOf(settings, grant.validForMs) : 1)
  const usualMs = s.answeredInMs * slowerBy
  if (!grant?.failures) return Math.max(leftMs / 2, Math.min(leftMs - retryMs / 2, usualMs))
  return Math.min(leftMs, Math.max(retryMs, leftMs - retryMs, usualMs))
}

/** How old a grant may be and still be worth having: there is time left to renew it. */
function usefulMs({ renewDeadlineMs, retryIntervalMs }: Settings): number {
  return renewDeadlineMs - retryIntervalMs
}

/** For how long it is tried to give a lease back. */
function farewellOf({ leaseDurationMs }: Settings): number {
  return Math.min(leaseDurationMs / 3, farewellMs)
}

/** Two tries fit, unless answers take longer. */
function releaseBoundMs({ settings, answeredInMs }: Draft): number {
  return Math.min(farewellCallMs, Math.max(farewellOf(settings) / 2, answeredInMs * slowerBy))
}

/**
 * I10: a contender waits for an answer for as long as it would be of use. After an acquire there is time left for a
 * read, to find out what became of it, and to lead. A mere look is soon done again.
 */
function contenderBoundMs(s: Draft, verb: 'read' | 'acquire'): number {
  const { settings, view } = s
  const { retryIntervalMs } = settings
  const giveUpInMs = answerDueMs(s) - s.nowMs
  const mostMs = Math.min(usefulMs(settings), giveUpInMs > 0 ? giveUpInMs : Infinity)
  const attempt = repeatable(s)
  if (!attempt && view) return Math.min(mostMs, Math.max(2 * retryIntervalMs, s.answeredInMs * slowerBy))
  const sinceMs = attempt ? heldNow(s) - attempt.firstSentAtMs : 0
  const leftMs = mostMs - sinceMs - (verb === 'acquire' ? retryIntervalMs : 0)
  return Math.min(mostMs, Math.max(retryIntervalMs, leftMs))
}

// Time and chance

function heldNow(s: Draft): number {
  return s.nowMs + s.sleptMs
}

function jittered(effects: Effects, ms: number): number {
  return ms * (0.5 + effects.chance())
}
