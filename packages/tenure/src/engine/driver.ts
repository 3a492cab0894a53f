/**
 * Drives the algorithm without a clock, a timer, or a connection: it processes one input at a time and keeps one timer
 * and one pending call. An elector connects the driver to real ones. `explore()` feeds it every possible order of
 * events.
 */
import { step } from './election.ts'
import { nextWakeMs, type Effect, type ElectionState, type Input, type InputContext } from './election-state.ts'

/** The environment of a driver. */
export interface DriverHost {
  /** Returns the current time and the randomness for a new input. */
  moment(): InputContext
  /** Performs an effect. It may dispatch more inputs, which are processed afterwards. */
  perform(effect: Effect): void
  /** Sets the only timer, replacing the previous one. Undefined clears it. */
  wakeAt(atMs: number | undefined): void
  /** Called after an input and all inputs that it caused have been processed. */
  settled(): void
}

type Untimed<T> = T extends unknown ? Omit<T, keyof InputContext> : never

/** An input before the driver adds the time and the randomness. */
export type InputBody = Untimed<Input>

/** The driver's state, as plain data. */
export interface DriverState {
  readonly state: ElectionState
  /** When the timer fires. Undefined if no timer is set. */
  readonly wakeAtMs: number | undefined
  /** The id of the pending call, the only one whose answer counts. */
  readonly flight: number | undefined
}

/** Drives one election. */
export class Driver implements DriverState {
  state: ElectionState
  wakeAtMs: number | undefined
  flight: number | undefined
  readonly #host: DriverHost
  #inbox: Input[] | undefined

  constructor(host: DriverHost, { state, wakeAtMs, flight }: DriverState) {
    this.#host = host
    this.state = state
    this.wakeAtMs = wakeAtMs
    this.flight = flight
  }

  /** Processes inputs one at a time. An input that a listener dispatches from inside a step is queued, not nested. */
  dispatch(body: InputBody): void {
    const input = { ...body, ...this.#host.moment() } as Input
    if (this.#inbox) return void this.#inbox.push(input)
    this.#inbox = [input]
    try {
      for (const next of this.#inbox) {
        const { state, effects } = step(this.state, next)
        this.state = state
        for (const effect of effects) this.#perform(effect)
      }
    } finally {
      this.#inbox = undefined
      this.#arm()
    }
    this.#host.settled()
  }

  /** Called when the timer fires. */
  woken(): void {
    this.wakeAtMs = undefined
    this.dispatch({ type: 'wake' })
  }

  /**
   * Returns whether `call` is the pending call, and if so, clears it. The caller then dispatches the answer or the
   * failure.
   */
  lands(call: number): boolean {
    if (this.flight !== call) return false
    this.flight = undefined
    return true
  }

  #perform(effect: Effect): void {
    if (effect.type === 'call') this.flight = effect.call.id
    if (effect.type === 'cancel') this.flight = undefined
    this.#host.perform(effect)
    // Dispatched after every listener of the end has been called, so work that they registered is already in the queue.
    if (effect.type === 'ended') this.dispatch({ type: 'end-told' })
  }

  #arm(): void {
    const atMs = nextWakeMs(this.state)
    // Keep a timer that fires earlier. Every observed renewal moves the next wake, and waking too early is harmless.
    if (atMs !== undefined && this.wakeAtMs !== undefined && this.wakeAtMs <= atMs) return
    this.wakeAtMs = atMs
    this.#host.wakeAt(atMs)
  }
}
