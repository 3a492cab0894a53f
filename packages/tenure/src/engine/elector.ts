/* oxlint-disable no-unused-private-class-members -- this rule misses uses in nested classes; the compiler does not */
import { callSafely } from '@tenure/internal/call-safely'
import { messageOf } from '@tenure/internal/message'
import { processName } from '@tenure/internal/process-name'
import { systemClock, type Clock, type Timer } from '../common/clock.ts'
import { Driver, type DriverHost, type InputBody } from './driver.ts'
import {
  beliefEndOf,
  canWriteCheckpoint,
  deadlineOf,
  initialState,
  leadsAt,
  type Call,
  type Effect,
  type ElectionState,
  type KnownLease,
  type InputContext,
  type ElectionSettings,
} from './election-state.ts'
import { isHeldByOther } from './election.ts'
import { guardFor, type ElectorGuard, type ReleaseOnCrashOptions } from './guard/elector-guard.ts'
import { ElectionLog, type LogHistory } from './election-log.ts'
import { fullName, invalidOption, type LeadershipLostError, TenureError } from '../common/errors.ts'
import { EventQueue, originOf, type ElectionEvent, type EventBody, type Observer } from './events.ts'
import { explain, type Explanation } from './explain.ts'
import { isAbortOfTerm, Leadership, type LeadershipHost } from './leadership.ts'
import { stepDownInput, type StepDownOptions } from './step-down.ts'
import type { LeaseRecord, LeaseStore, Metadata } from './lease-store.ts'
import type { Log } from '../log/log.ts'
import { checkName } from '../common/names.ts'
import {
  checkBoolean,
  checkClock,
  checkLog,
  checkObserver,
  checkOneOf,
  checkSignal,
  checkpointLimitOf,
  checkStore,
  copyMetadata,
} from './check-values.ts'
import { checkOptions, type OptionNames } from '../common/check-options.ts'
import { checkPresence, presenceNames, type PresenceOptions } from './members/check-presence.ts'
import { Presence } from './members/presence.ts'
import { SleepMeter, type SleepListener } from './sleep-meter.ts'
import { callStore, checkFound, type StoreAnswer } from './store-calls.ts'
import { checkDuration, timingNames, timingsOf, type TimingOptions } from './timings.ts'
import { PreferenceSource, preferenceNames, preferenceSettings, type PreferenceOptions } from './ask-preference.ts'
import type { PreferenceAnswer } from './preference.ts'

/** Options of an {@link Elector}. Only `store` and `election` are required. */
export interface ElectorOptions extends TimingOptions, PreferenceOptions, PresenceOptions {
  readonly store: LeaseStore
  readonly election: string
  /** Default: the host name, the process id, and a random suffix. */
  readonly identity?: string | undefined
  /** A JSON object that other processes see in the record while this elector leads. Default: empty. */
  readonly metadata?: Metadata | undefined
  /** Whether `stop()` releases the lease, so that others need not wait for it to expire. Default: true. */
  readonly releaseOnStop?: boolean | undefined
  /**
   * Whether a guard process releases the lease as soon as this process has crashed, so that others need not wait for it
   * to expire. Use it only for work that ends with the process. Do not use it for work in child processes, or for work
   * that a server continues after its client has died. Linux only. Default: false.
   */
  readonly releaseOnCrash?: boolean | ReleaseOnCrashOptions | undefined
  /** How long `stop()` and `stepDown()` wait for work to settle. Default: 30 s. */
  readonly drainTimeoutMs?: number | undefined
  readonly clock?: Clock | undefined
  readonly observer?: Observer | undefined
  /**
   * Where to log losses, errors, and recoveries, such as `console`. False disables logging. Default: standard error,
   * unless the observer has an `onEvent`.
   */
  readonly log?: Log | false | undefined
}

/** Options of `start`. */
export interface StartOptions {
  /** Aborting it stops the elector. */
  readonly signal?: AbortSignal | undefined
  /**
   * When the elector stops on its own.
   * `stopped` (default): never.
   * `unanswered`: when the store has not answered for one lease duration.
   * `lost`: after the first loss.
   * `busy`: like `unanswered` and `lost`, and as soon as another process is known to lead.
   * `refused`: after the first loss, and after the first refused or failed try.
   */
  readonly until?: 'stopped' | 'unanswered' | 'lost' | 'busy' | 'refused' | undefined
  /**
   * With `until: 'busy'`, how long to wait for a leader that is alive, and for a store that does not answer, before
   * the elector stops. Infinity waits without a limit. Default: 0.
   */
  readonly waitMs?: number | undefined
}

/** The names of {@link StartOptions}. */
const startNames: OptionNames<StartOptions> = { signal: true, until: true, waitMs: true }

/** The names of {@link ElectorOptions} that do not concern one election. */
export const candidateNames: OptionNames<Omit<ElectorOptions, 'election' | keyof PresenceOptions>> = {
  store: true,
  identity: true,
  ...timingNames,
  metadata: true,
  releaseOnStop: true,
  releaseOnCrash: true,
  drainTimeoutMs: true,
  ...preferenceNames,
  clock: true,
  observer: true,
  log: true,
}

/** The names of {@link ElectorOptions}. */
export const electorNames: OptionNames<ElectorOptions> = { election: true, ...candidateNames, ...presenceNames }

const keptErrors = 3
/**
 * The longest time that setting a timer may take. If the process was paused for longer in between, the timer would
 * fire late and is set again.
 */
const lateTimerMs = 5
/** The longest delay between a store's first answer and its diagnostics. */
const maxDiagnosticsDelayMs = 1_000

interface LeadershipWaiter {
  resolve(leadership: Leadership): void
  reject(reason: unknown): void
}

/**
 * Takes part in one election until it is stopped.
 *
 * @example
 * const elector = new Elector({ store: memoryStore(), election: 'payments' })
 * elector.start()
 * const leadership = await elector.waitForLeadership()
 * console.log(`leading term ${leadership.term}`)
 * await elector.stop()
 */
export class Elector {
  readonly election: string
  readonly identity: string
  /** The store's namespace, if it has one. */
  readonly namespace?: string
  readonly #store: LeaseStore
  readonly #clock: Clock
  readonly #observer: Observer | undefined
  readonly #log: ElectionLog
  readonly #sleep: SleepMeter
  readonly #driver: Driver
  readonly #guard: ElectorGuard | undefined
  /** Undefined if this process has no preference that can change. */
  readonly #preference: PreferenceSource | undefined
  readonly #presence: Presence | undefined
  #timer: Timer | undefined
  #flight: { controller: AbortController; timer: Timer; turn: { timer: Timer; send(): void } | undefined } | undefined
  /** Whether a lease has expired here since the last call of a campaign. */
  #hasExpired = false
  #watcher: AbortController | undefined
  #examination: { timer: Timer; controller: AbortController } | undefined
  #leadership: Leadership | undefined
  #work = 0
  #waiters: Set<LeadershipWaiter> | undefined
  #queues: Set<EventQueue> | undefined
  #errors: { atMs: number; error: unknown }[] | undefined
  #checkpoint: { text: string; resolve(): void; reject(reason: unknown): void } | undefined
  #stepDowns: (() => void)[] | undefined
  #stopped: { promise: Promise<void>; resolve(): void } | undefined
  #releaseError: unknown
  #forgetSignal: (() => void) | undefined
  /** Called after each step, because the state may have changed. @internal */
  onStep: (() => void) | undefined
  /**
   * Receives each event after the observer. A style listens here, so that it does not count as an observer. @internal
   */
  onEvent: ((event: ElectionEvent) => void) | undefined
  #leadershipHost: (LeadershipHost & SleepListener) | undefined

  constructor(options: ElectorOptions) {
    checkOptions('Elector', options, electorNames)
    const timings = timingsOf(options)
    const { drainTimeoutMs = 30_000, releaseOnStop = true, metadata = {} } = options
    checkStore(options.store)
    checkName('election', options.election)
    if (options.identity !== undefined) checkName('identity', options.identity)
    checkDuration('drainTimeoutMs', drainTimeoutMs, 1)
    checkBoolean('releaseOnStop', releaseOnStop)
    checkClock(options.clock)
    checkObserver(options.observer)
    checkLog(options.log)
    const preference = preferenceSettings(options, timings.retryIntervalMs)
    this.#guard = guardFor(options.releaseOnCrash, options.store)
    this.#store = options.store
    this.#clock = options.clock ?? systemClock
    this.#observer = options.observer
    this.#sleep = SleepMeter.of(this.#clock)
    this.election = options.election
    this.identity = options.identity ?? processName(this.#clock.randomId())
    if (options.store.namespace !== undefined) this.namespace = options.store.namespace
    this.#log = new ElectionLog(this, {
      clock: this.#clock,
      log: options.log,
      isObserved: options.observer?.onEvent !== undefined,
      hasTerms: options.store.terms,
    })
    this.#preference = preference.asks ? new PreferenceSource(options, this) : undefined
    const settings: ElectionSettings = {
      ...timings,
      election: this.election,
      identity: this.identity,
      metadata: copyMetadata(metadata),
      drainTimeoutMs,
      releaseOnStop,
      ...preference,
      canWatch: options.store.watch !== undefined,
      readsFirst: options.store.readsFirst ?? false,
      terms: options.store.terms,
      until: 'stopped',
      waitMs: 0,
    }
    const offer = checkPresence(options, settings)
    if (offer) {
      this.#presence = new Presence({
        ...offer,
        store: this.#store,
        group: this.election,
        identity: this.identity,
        leaseDurationMs: settings.leaseDurationMs,
        driftRatio: settings.driftRatio,
        releaseOnCrash: options.releaseOnCrash,
        clock: this.#clock,
        createElector: (seat) => new Elector(seat),
        onProblem: (error) => this.#emit({ type: 'error', error }),
        survey: {
          retryIntervalMs: settings.retryIntervalMs,
          phase: () => this.#state.phase,
          term: () => (this.#state.phase === 'leading' ? this.#state.grant?.record.term : undefined),
          onNewerGeneration: (newer) => this.#dispatch({ type: 'members', newer }),
          onHandOverRequest: (to) => {
            this.stepDown({ to }).catch((error: unknown) => this.#emit({ type: 'error', error }))
          },
        },
      })
    }
    this.#driver = new Driver(new Elector.#DriverHost(this), {
      state: initialState(settings),
      wakeAtMs: undefined,
      flight: undefined,
    })
  }

  /** Starts campaigning. An elector can be started only once. Create another one to campaign again after `stop()`. */
  start(options: StartOptions = {}): void {
    checkOptions('start()', options, startNames)
    this.#start(options)
  }

  /**
   * Tries to acquire the lease once, knowing what this process has observed of it, and stops after a loss. @internal
   */
  tryOnce(known: KnownLease): void {
    this.#start({ until: 'refused' }, known)
  }

  #start(options: StartOptions, known?: KnownLease): void {
    if (this.#state.phase !== 'idle') {
      throw new TenureError(
        'ALREADY_STARTED',
        `The elector for "${fullName(this)}" was already started or stopped. Create a new one to campaign again.`,
      )
    }
    const { signal, until = 'stopped', waitMs = 0 } = options
    checkSignal(signal)
    checkOneOf('until', until, ['stopped', 'unanswered', 'lost', 'busy', 'refused'])
    if (waitMs !== Infinity) checkDuration('waitMs', waitMs)
    if (waitMs > 0 && until !== 'busy') throw invalidOption('waitMs', waitMs, "it needs until: 'busy'")
    this.#driver.state = { ...this.#state, settings: { ...this.#state.settings, until, waitMs } }
    if (signal?.aborted) return void this.stop()
    if (signal) this.#stopOn(signal)
    this.#log.open()
    this.#log.advise(this.#guard?.start())
    this.#dispatch({ type: 'start', known })
  }

  #stopOn(signal: AbortSignal): void {
    const onAbort = () => void this.stop()
    signal.addEventListener('abort', onAbort, { once: true })
    this.#forgetSignal = () => signal.removeEventListener('abort', onAbort)
  }

  /**
   * Whether this elector leads now, according to the clock. If its lease has expired, the leadership's signal has been
   * aborted before this returns.
   */
  isLeader(): boolean {
    if (this.leadsByClock()) return true
    if (this.#state.phase === 'leading') this.#endOverdue()
    return false
  }

  /** Like {@link isLeader}, but without side effects: it does not end an expired leadership. @internal */
  leadsByClock(): boolean {
    return leadsAt(this.#state, this.#heldMs())
  }

  /**
   * The last record seen, even if it was released. Undefined before the first record was seen and after the record was
   * deleted.
   */
  leader(): LeaseRecord | undefined {
    return this.#state.grant?.record ?? this.#state.view?.record
  }

  /**
   * Resolves with the current or the next leadership. Rejects when the elector stops or `signal` aborts. With `until:
   * 'busy'` or `until: 'refused'`, it rejects with `BUSY` or with the error from the failed try.
   */
  async waitForLeadership(options: { signal?: AbortSignal | undefined } = {}): Promise<Leadership> {
    checkOptions('waitForLeadership()', options, { signal: true })
    const { signal } = options
    checkSignal(signal)
    signal?.throwIfAborted()
    const current = this.currentLeadership()
    if (current) return current
    if (this.#state.phase === 'stopped') throw this.#stoppedError()
    return new Promise((resolve, reject) => {
      const waiters = (this.#waiters ??= new Set())
      const onAbort = () => settle(() => reject(signal?.reason))
      const settle = (outcome: () => void) => {
        waiters.delete(waiter)
        signal?.removeEventListener('abort', onAbort)
        outcome()
      }
      const waiter: LeadershipWaiter = {
        resolve: (leadership) => settle(() => resolve(leadership)),
        reject: (reason) => settle(() => reject(reason)),
      }
      waiters.add(waiter)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** The leadership, if this elector leads now according to the clock. @internal */
  currentLeadership(): Leadership | undefined {
    return this.#leadership?.isLeader() ? this.#leadership : undefined
  }

  /** All events from now on. A reader that falls behind misses events and gets a `gap` event instead. */
  events(options: { signal?: AbortSignal | undefined } = {}): AsyncIterableIterator<ElectionEvent, undefined> {
    checkOptions('events()', options, { signal: true })
    const { signal } = options
    checkSignal(signal)
    const queues = (this.#queues ??= new Set())
    const onAbort = () => queue.end()
    const queue = new EventQueue(() => {
      queues.delete(queue)
      signal?.removeEventListener('abort', onAbort)
    })
    if (signal?.aborted || this.#state.phase === 'stopped') {
      queue.end()
      return queue
    }
    queues.add(queue)
    signal?.addEventListener('abort', onAbort, { once: true })
    return queue
  }

  /** Explains why this elector leads or not, who leads, when the lease ends, and the last errors. */
  explain(): Explanation {
    const nowMs = this.#clock.monotonicMs()
    return explain(this.#state, {
      namespace: this.namespace,
      nowMs,
      heldMs: nowMs + this.#sleep.sleptMs(nowMs),
      pendingWork: this.#work,
      guard: this.#guard?.status,
      seat: this.#presence?.seat,
      errors: this.#errors ?? [],
    })
  }

  /**
   * Gives up leadership after its work has settled, and stays out of the election for `cooldownMs` (default: one lease
   * duration). With `to`, the release names the candidate that should lead next. Resolves when the lease is released,
   * or when it is left to expire because work did not settle. If this elector does not lead, it only stays out.
   */
  async stepDown(options: StepDownOptions = {}): Promise<void> {
    const input = stepDownInput(options, this.identity, this.#state.settings.leaseDurationMs)
    if (this.#state.phase === 'stopped' || this.#state.phase === 'idle') return
    await new Promise<void>((resolve) => {
      ;(this.#stepDowns ??= []).push(resolve)
      this.#dispatch(input)
    })
  }

  /**
   * Ends the campaign: aborts the leadership's signal, waits for its work, and releases the lease. Settles in bounded
   * time.
   */
  stop(): Promise<void> {
    if (!this.#stopped) {
      let resolve = (): void => undefined
      const promise = new Promise<void>((settle) => (resolve = settle))
      this.#stopped = { promise, resolve }
      this.#dispatch({ type: 'stop' })
      this.#sendNow()
    }
    return this.#stopped.promise
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** The lease as last observed, and the time until it expires if it is not renewed. @internal */
  leaseSeen(): { readonly record: LeaseRecord; readonly leftMs: number } | undefined {
    const { grant, view } = this.#state
    if (grant) return { record: grant.record, leftMs: beliefEndOf(this.#state) - this.#heldMs() }
    if (!view?.record) return undefined
    const endsAtMs = view.retryAtMs ?? view.seenAtMs + view.holdsForMs
    return { record: view.record, leftMs: endsAtMs - this.#clock.monotonicMs() }
  }

  /** Reports an error that occurred in a style. The style's own `onEvent` does not receive it. @internal */
  reportError(error: unknown): void {
    this.#emit({ type: 'error', error }, { isOfStyle: true })
  }

  /** Continues the log of an earlier elector. @internal */
  continueLog(past: LogHistory): void {
    this.#log.continue(past)
  }

  /**
   * Makes the next claim ask for a term above this one. For a term that is known to have been granted, although the
   * store has forgotten it. @internal
   */
  raiseTerm(term: number): void {
    const { highestTerm } = this.#state
    this.#driver.state = { ...this.#state, highestTerm: Math.max(highestTerm, term) }
  }

  /** Why the final release failed. Undefined if it succeeded. @internal */
  get releaseError(): unknown {
    return this.#releaseError
  }

  /**
   * Continues from a snapshot of `original`, like a clone on its own machine. Calls, watches, and work do not survive
   * the snapshot. For the simulator. @internal
   */
  resumeFrom(original: Elector): void {
    this.#driver.state = { ...original.#state, work: 0 }
    for (const attempt of original.#guard?.registered ?? []) this.#guard?.registered.add(attempt)
    const { phase, flight, watch, grant } = this.#state
    if (phase === 'leading' && grant) {
      this.#leadership = this.#beginTerm(grant.record.term)
    }
    const error = new TenureError('BACKEND_UNAVAILABLE', 'The connection was lost.', { retryable: true })
    if (flight) this.#dispatch({ type: 'failed', call: flight.id, error })
    if (watch === 'open') this.#dispatch({ type: 'watch-ended' })
    this.#dispatch({ type: 'wake' })
  }

  #heldMs(): number {
    const nowMs = this.#clock.monotonicMs()
    return nowMs + this.#sleep.sleptMs(nowMs)
  }

  get #state(): ElectionState {
    return this.#driver.state
  }

  #dispatch(input: InputBody): void {
    this.#driver.dispatch(input)
  }

  #moment(): InputContext {
    const clock = this.#clock
    const nowMs = this.#clock.monotonicMs()
    return {
      nowMs,
      sleptMs: this.#sleep.sleptMs(nowMs),
      fresh: () => clock.randomId(),
      chance: () => clock.random(),
      ask: () => this.#ask(),
      wallMs: () => clock.wallMs(),
    }
  }

  #ask(): PreferenceAnswer {
    const { priority } = this.#state.settings
    return this.#preference?.ask() ?? { eligible: true, priority, progressedAtMs: -Infinity }
  }

  #afterInput(): void {
    // While work winds down, the deadline passes without an `ended` effect that would drop the checkpoint.
    const { phase } = this.#state
    if (this.#checkpoint && phase !== 'leading' && !canWriteCheckpoint(this.#state, this.#heldMs())) {
      this.#dropCheckpoint(this.#leadership?.loss)
    }
    this.#guard?.stepped(this.#state)
    this.#presence?.report({ eligible: this.#state.preference.eligible })
    this.onStep?.()
  }

  #wakeAt(atMs: number | undefined): void {
    this.#timer?.cancel()
    this.#timer = atMs === undefined ? undefined : this.#setTimerAt(atMs, () => this.#driver.woken())
  }

  /**
   * A pause between reading the clock and starting the timer would make the timer late by the same amount (I1), so set
   * it again.
   */
  #setTimerAt(atMs: number, callback: () => void): Timer {
    for (;;) {
      const nowMs = this.#clock.monotonicMs()
      const timer = this.#clock.setTimer(atMs - nowMs, callback)
      if (this.#clock.monotonicMs() - nowMs <= lateTimerMs) return timer
      timer.cancel()
    }
  }

  #perform(effect: Effect): void {
    switch (effect.type) {
      case 'call':
        return this.#call(effect.call)
      case 'cancel':
        return this.#endFlight(new TenureError('TIMEOUT', 'The call is no longer needed.'))
      case 'watch':
        return effect.open ? this.#openWatch() : this.#closeWatch()
      case 'elected':
        return this.#begin(effect.record)
      case 'ended':
        return this.#end(effect.reason)
      case 'checkpoint-written':
        return this.#checkpointWritten(effect.text)
      case 'stepped-down':
        return this.#resolveStepDowns()
      case 'stopped':
        return this.#finish()
      case 'release-failed':
        this.#releaseError = effect.error
        return this.#emit({ type: 'error', error: effect.error })
      case 'renewed':
        return this.#emit({ type: 'renewed', term: effect.record.term, record: effect.record })
      default:
        return this.#emit(effect)
    }
  }

  #call(call: Call): void {
    const controller = new AbortController()
    const timer = this.#clock.setTimer(call.boundMs, () => {
      if (!this.#driver.lands(call.id)) return
      const error = new TenureError(
        'TIMEOUT',
        `The store did not answer "${call.verb}" for "${fullName(this)}" within ${Math.ceil(call.boundMs)} ms.`,
        { retryable: true },
      )
      this.#endFlight(error)
      this.#failed(call, error, startedAtMs)
    })
    const startedAtMs = this.#clock.monotonicMs()
    const transmit = () =>
      void callStore(this.#store, this.election, call, controller).then(
        (answer) => this.#answered(call, answer, startedAtMs),
        (error: unknown) => {
          if (!this.#driver.lands(call.id)) return
          this.#endFlight()
          this.#failed(call, error, startedAtMs)
          this.#diagnoseSoon()
        },
      )
    const send = () => {
      const arming = this.#guard?.sending(call, this.#state.highestTerm)
      if (arming) void arming.then(() => this.#driver.flight === call.id && transmit())
      else transmit()
    }
    // The event loop takes a turn between a loss and the next campaign. Otherwise, with a store that answers without
    // I/O, an elector whose work blocks the loop for longer than the lease would lose and win again forever before any
    // other timer fires.
    const isNext = this.#hasExpired && this.#state.phase === 'standby'
    if (isNext) this.#hasExpired = false
    this.#flight = { controller, timer, turn: isNext ? { timer: this.#clock.setTimer(0, send), send } : undefined }
    if (!isNext) send()
  }

  /**
   * Without this, a call that waits for the next turn of the event loop would make `stop()` hang on a fake clock that
   * is not advanced.
   */
  #sendNow(): void {
    const turn = this.#flight?.turn
    if (!this.#flight || !turn) return
    this.#flight.turn = undefined
    turn.timer.cancel()
    turn.send()
  }

  #failed(call: Call, error: unknown, startedAtMs: number): void {
    this.#log.failed(call.verb, error)
    this.#dispatch({ type: 'failed', call: call.id, error })
    this.#report(call.verb, 'failed', startedAtMs)
  }

  #answered(call: Call, answer: StoreAnswer, startedAtMs: number): void {
    if (!this.#driver.lands(call.id)) return
    this.#endFlight()
    if (answer.outcome) {
      this.#guard?.answered(call, answer.outcome)
      this.#dispatch({ type: 'answer', call: call.id, outcome: answer.outcome })
    }
    if (!answer.outcome) this.#dispatch({ type: 'found', call: call.id, record: answer.record })
    // This comes last, because a listener may call back into the elector and must find the call completed.
    this.#log.answered({
      isWrite: call.verb !== 'read',
      // A store without terms cannot show who holds a lease, so its refusals must count as good answers.
      isOk: answer.outcome?.ok !== false || !this.#store.terms,
      isHeld: isHeldByOther(this.#state),
    })
    this.#report(call.verb, answer.outcome?.ok === false ? 'refused' : 'ok', startedAtMs)
    // After the first answer, so that the election comes first, and not at all while the store is down.
    if (!this.#stopped) this.#presence?.start()
    this.#diagnoseSoon()
  }

  /** Ends the pending call. `reason` is undefined if the call was answered. */
  #endFlight(reason?: TenureError): void {
    const flight = this.#flight
    this.#flight = undefined
    flight?.timer.cancel()
    flight?.turn?.timer.cancel()
    if (reason) flight?.controller.abort(reason)
  }

  #openWatch(): void {
    const controller = new AbortController()
    this.#watcher = controller
    void this.#follow(controller)
  }

  #closeWatch(): void {
    const controller = this.#watcher
    this.#watcher = undefined
    controller?.abort()
  }

  async #follow(controller: AbortController): Promise<void> {
    try {
      const { signal } = controller
      const changes = this.#store.watch?.(this.election, { signal, holder: this.identity }) ?? []
      for await (const record of changes) {
        if (this.#watcher !== controller) return
        this.#dispatch({ type: 'observed', record: checkFound(record) })
      }
    } catch (error) {
      if (this.#watcher === controller) this.#emit({ type: 'error', error })
    }
    if (this.#watcher !== controller) return
    this.#watcher = undefined
    this.#dispatch({ type: 'watch-ended' })
  }

  /**
   * Diagnoses the store once, so that a problem is reported before it costs a leadership. This runs shortly after the
   * first answer, when usually no other call is in flight, so that it can share the connection. A campaign that ends
   * immediately skips it.
   */
  #diagnoseSoon(): void {
    if (!this.#store.examine || this.#examination || this.#stopped) return
    const controller = new AbortController()
    const inMs = Math.min(maxDiagnosticsDelayMs, this.#state.settings.retryIntervalMs / 2)
    const timer = this.#clock.setTimer(inMs, () => void this.#examine(controller))
    this.#examination = { timer, controller }
  }

  async #examine({ signal }: AbortController): Promise<void> {
    try {
      for (const error of (await this.#store.examine?.(this.election, { signal })) ?? []) {
        if (!signal.aborted) this.#emit({ type: 'error', error })
      }
    } catch {
      // The campaign calls the same store and reports its errors.
    }
  }

  #begin(record: LeaseRecord): void {
    if (this.#preference) this.#preference.progressedAtMs = -Infinity
    const leadership = this.#beginTerm(record.term)
    this.#leadership = leadership
    this.#emit({ type: 'elected', term: record.term, record })
    for (const waiter of this.#waiters ?? []) waiter.resolve(leadership)
  }

  #beginTerm(term: number): Leadership {
    // Created on demand, because most candidates never lead.
    const host = (this.#leadershipHost ??= new Elector.#LeadershipHost(this))
    this.#sleep.watchFor(host)
    return new Leadership(host, term)
  }

  #end(reason: LeadershipLostError['reason']): void {
    if (reason === 'expired') this.#hasExpired = true
    if (this.#leadershipHost) this.#sleep.forget(this.#leadershipHost)
    const loss = this.#leadership?.end(reason)
    if (loss) this.#log.ended(loss)
    this.#dropCheckpoint(loss)
  }

  /** Ends a leadership whose lease has expired before any timer could do so. */
  #endOverdue(): void {
    if (this.#leadership?.loss) return
    this.#dispatch({ type: 'wake' })
    // If this runs inside a step, the input above is only queued. End the leadership now, so that its signal aborts.
    this.#leadership?.end('expired')
  }

  #dropCheckpoint(loss: unknown): void {
    this.#checkpoint?.reject(loss)
    this.#checkpoint = undefined
  }

  #checkpointWritten(text: string): void {
    if (this.#checkpoint?.text !== text) return
    this.#checkpoint.resolve()
    this.#checkpoint = undefined
  }

  #resolveStepDowns(): void {
    const resolves = this.#stepDowns ?? []
    this.#stepDowns = undefined
    for (const resolve of resolves) resolve()
  }

  #finish(): void {
    this.#examination?.timer.cancel()
    this.#examination?.controller.abort()
    this.#forgetSignal?.()
    this.#resolveStepDowns()
    for (const waiter of this.#waiters ?? []) waiter.reject(this.#stoppedError())
    for (const queue of this.#queues ?? []) queue.end()
    this.#log.close()
    this.#guard?.stop()
    void this.stop()
    // The seat is released last: this process is a member for as long as it holds anything else.
    if (this.#presence) void this.#presence.stop().finally(() => this.#stopped?.resolve())
    else this.#stopped?.resolve()
  }

  #stoppedError(): unknown {
    const { gaveUp } = this.#state
    if (gaveUp && 'error' in gaveUp) return gaveUp.error
    if (gaveUp) {
      const { holder, term } = gaveUp.record ?? {}
      const who = holder === undefined ? 'Another process leads' : `"${holder}" leads in term ${term}`
      const { waitMs } = this.#state.settings
      const waited = waitMs > 0 ? `has waited for ${waitMs} ms` : 'does not wait'
      return new TenureError('BUSY', `"${fullName(this)}" is busy: ${who}, and this elector ${waited}.`, {
        retryable: true,
      })
    }
    return new TenureError('STOPPED', `The elector for "${fullName(this)}" was stopped.`)
  }

  #emit(body: EventBody, { isOfStyle = false } = {}): void {
    if (body.type === 'error' || body.type === 'renew-failed') this.#keepError(body.error)
    this.#log.event(body)
    if (!this.#observer?.onEvent && !this.#queues?.size && !this.onEvent) return
    const event = { ...body, ...originOf(this) } as ElectionEvent
    for (const queue of this.#queues ?? []) queue.push(event)
    this.#contain(() => this.#observer?.onEvent?.(event))
    if (!isOfStyle) this.#contain(() => this.onEvent?.(event))
  }

  #report(verb: Call['verb'], result: 'ok' | 'refused' | 'failed', startedAtMs: number): void {
    if (!this.#observer?.onCall) return
    const durationMs = this.#clock.monotonicMs() - startedAtMs
    const isPresent = this.#presence && this.#presence.seat !== undefined
    const report = { ...originOf(this), verb, result, durationMs, isGuarded: this.#guard?.status.isArmed, isPresent }
    this.#contain(() => this.#observer?.onCall?.(report))
  }

  /** A listener's error must not end leadership, so it is reported to everyone except that listener. */
  #contain(callListener: () => unknown): void {
    callSafely(callListener, (cause) => {
      const text = `The observer of "${fullName(this)}" failed: ${messageOf(cause)}`
      const error = new TenureError('WORK_FAILED', text, { cause })
      this.#keepError(error)
      for (const queue of this.#queues ?? []) queue.push({ type: 'error', error, ...originOf(this) })
      this.#log.listenerFailed(error)
    })
  }

  #keepError(error: unknown): void {
    this.#errors = [...(this.#errors ?? []).slice(1 - keptErrors), { atMs: this.#clock.wallMs(), error }]
  }

  async #setCheckpoint(leadership: Leadership, text: string): Promise<void> {
    if (!this.#store.terms) {
      throw new TenureError(
        'TERMS_REQUIRED',
        `The store for "${fullName(this)}" keeps no lease record, so it cannot store a checkpoint.`,
      )
    }
    while (this.#checkpoint) await this.#settled(this.#checkpoint)
    leadership.throwUnlessWritable()
    await new Promise<void>((resolve, reject) => {
      this.#checkpoint = { text, resolve, reject }
      this.#dispatch({ type: 'checkpoint', text })
    })
  }

  #settled(checkpoint: { resolve(): void; reject(reason: unknown): void }): Promise<void> {
    return new Promise((settle) => {
      const { resolve, reject } = checkpoint
      checkpoint.resolve = () => (resolve(), settle())
      checkpoint.reject = (reason) => (reject(reason), settle())
    })
  }

  #track(leadership: Leadership, work: Promise<unknown>): void {
    const report = (cause: unknown) => {
      if (isAbortOfTerm(cause, leadership)) return
      const inTerm = this.#store.terms ? ` in term ${leadership.term}` : ''
      const text = `Work of "${fullName(this)}"${inTerm} failed: ${messageOf(cause)}`
      this.#emit({ type: 'error', error: new TenureError('WORK_FAILED', text, { cause }) })
    }
    // A report that fails must not leave work pending. Otherwise this elector could never take part in an election
    // again.
    const settled = Promise.resolve(work)
      .catch(report)
      .catch(() => undefined)
    const { phase, ending } = this.#state
    const active = phase === 'leading' || (phase === 'ending' && ending?.releaseUntilMs === undefined)
    // It is too late to wait for this work: its term is being released, was released, or has ended.
    if (leadership !== this.#leadership || !active) throw leadership.loss ?? this.#stoppedError()
    this.#dispatch({ type: 'work', pending: ++this.#work })
    void settled.then(() => this.#dispatch({ type: 'work', pending: --this.#work }))
  }

  // Two small classes instead of objects with functions: a function for each method of each elector would take a third
  // of an elector's memory.

  static readonly #DriverHost = class implements DriverHost {
    readonly #elector: Elector

    constructor(elector: Elector) {
      this.#elector = elector
    }

    moment(): InputContext {
      return this.#elector.#moment()
    }

    perform(effect: Effect): void {
      this.#elector.#perform(effect)
    }

    wakeAt(atMs: number | undefined): void {
      this.#elector.#wakeAt(atMs)
    }

    settled(): void {
      this.#elector.#afterInput()
    }
  }

  static readonly #LeadershipHost = class implements LeadershipHost, SleepListener {
    readonly #elector: Elector

    constructor(elector: Elector) {
      this.#elector = elector
    }

    get election(): string {
      return this.#elector.election
    }

    get namespace(): string | undefined {
      return this.#elector.namespace
    }

    get identity(): string {
      return this.#elector.identity
    }

    get leaseDurationMs(): number {
      return this.#elector.#state.settings.leaseDurationMs
    }

    get checkpointLimitBytes(): number {
      return checkpointLimitOf(this.#elector.#store)
    }

    get storeError(): unknown {
      return this.#elector.#log.storeError
    }

    onSleep(): void {
      this.#elector.#dispatch({ type: 'wake' })
    }

    stepDown(leadership: Leadership, options: StepDownOptions): void {
      const input = stepDownInput(options, this.identity, this.leaseDurationMs)
      // A term that has ended must not end a later one.
      if (leadership.isLeader()) this.#elector.#dispatch(input)
    }

    leads(leadership: Leadership): boolean {
      return this.#isCurrent(leadership) && this.#elector.isLeader()
    }

    remainingMs(leadership: Leadership): number {
      const elector = this.#elector
      const leading = this.#isCurrent(leadership) && elector.#state.phase === 'leading'
      return leading ? Math.max(0, deadlineOf(elector.#state) - elector.#heldMs()) : 0
    }

    drainMs(leadership: Leadership): number {
      const elector = this.#elector
      return this.#isCurrent(leadership) ? Math.max(0, beliefEndOf(elector.#state) - elector.#heldMs()) : 0
    }

    stalledMs(): number {
      const elector = this.#elector
      return elector.#sleep.stalledMs(deadlineOf(elector.#state) - elector.#state.sleptMs)
    }

    checkpoint(leadership: Leadership): string {
      return this.#isCurrent(leadership) ? (this.#elector.#state.grant?.record.checkpoint ?? '') : ''
    }

    mayWriteCheckpoint(leadership: Leadership): boolean {
      return this.#isCurrent(leadership) && canWriteCheckpoint(this.#elector.#state, this.#elector.#heldMs())
    }

    setCheckpoint(leadership: Leadership, text: string): Promise<void> {
      return this.#elector.#setCheckpoint(leadership, text)
    }

    track(leadership: Leadership, work: Promise<unknown>): void {
      this.#elector.#track(leadership, work)
    }

    progress(leadership: Leadership): void {
      const preference = this.#elector.#preference
      if (preference && this.#isCurrent(leadership)) preference.progressedAtMs = this.#elector.#clock.monotonicMs()
    }

    #isCurrent(leadership: Leadership): boolean {
      return leadership === this.#elector.#leadership
    }
  }
}
