import type { Clock, LeaseRecord, LeaseStore, Timer } from 'tenure'
import { guardStep, initialGuardState, nextGuardWakeMs, type GuardEffect, type GuardInput } from 'tenure/internal'
import type { Link } from './link.ts'
import type { Machine } from './machine.ts'

/** How long one call of a guard may take before it is repeated. */
const callTimeoutMs = 2_000

/** An input of the guard without the time. */
export type UntimedGuardInput = GuardInput extends infer Each
  ? Each extends GuardInput
    ? Omit<Each, 'nowMs'>
    : never
  : never

/** A simulated guard process: the library's decisions on its own machine and network. */
export class GuardProcess {
  readonly machine: Machine
  readonly link: Link
  readonly #onReleased: () => void
  readonly #clock: Clock
  readonly #store: LeaseStore
  readonly #isGone: () => boolean
  /** The write ids of this guard's releases. */
  readonly #writeIds = new Set<string>()
  readonly #pipe: UntimedGuardInput[] = []
  #state = initialGuardState
  #timer: Timer | undefined

  constructor(options: {
    readonly machine: Machine
    readonly link: Link
    /** The store behind that link. */
    readonly store: LeaseStore
    /** The state of the guarded process according to the kernel. */
    readonly isGone: () => boolean
    readonly onReleased: () => void
  }) {
    this.machine = options.machine
    this.link = options.link
    this.#onReleased = options.onReleased
    this.#clock = options.machine.clock
    this.#store = options.store
    this.#isGone = options.isGone
  }

  /** Writes to the pipe. Messages arrive in order, even if the guard was paused. */
  write(message: UntimedGuardInput): void {
    this.#pipe.push(message)
    this.machine.deliver(() => {
      const next = this.#pipe.shift()
      if (next) this.#dispatch(next)
    })
  }

  hasReleased({ attempt, writeId }: LeaseRecord): boolean {
    return this.#writeIds.has(writeId ?? attempt)
  }

  #dispatch(message: UntimedGuardInput): void {
    if (this.#state.phase === 'over' || this.machine.state === 'dead') return
    const { state, effects } = guardStep(this.#state, { ...message, nowMs: this.#clock.monotonicMs() })
    this.#state = state
    for (const effect of effects) this.#perform(effect)
    this.#timer?.cancel()
    const wakeMs = nextGuardWakeMs(this.#state)
    if (wakeMs === undefined) return
    this.#timer = this.#clock.setTimer(wakeMs - this.#clock.monotonicMs(), () => this.#dispatch({ type: 'wake' }))
  }

  #perform(effect: GuardEffect): void {
    if (effect.type === 'look-at-process')
      return this.#dispatch({ type: 'process', status: this.#isGone() ? 'gone' : 'running' })
    if (effect.type === 'exit') return
    void this.#call(effect).then(
      (message) => this.#dispatch(message),
      () => this.#dispatch({ type: 'failed', attempt: effect.attempt.attempt }),
    )
  }

  async #call(effect: Extract<GuardEffect, { attempt: unknown }>): Promise<UntimedGuardInput> {
    const { attempt, election } = effect.attempt
    const controller = new AbortController()
    const timer = this.#clock.setTimer(callTimeoutMs, () => controller.abort(new Error('The call timed out.')))
    const call = { signal: controller.signal, timeoutMs: callTimeoutMs }
    try {
      if (effect.type === 'read') {
        const record = await this.#store.read(election, call)
        return { type: 'found', attempt, record, writeId: this.#clock.randomId() }
      }
      this.#writeIds.add(effect.claim.writeId ?? attempt)
      const { ok } = await this.#store.release(effect.claim, call)
      if (ok) this.#onReleased()
      return { type: 'released', attempt, ok }
    } finally {
      timer.cancel()
    }
  }
}
