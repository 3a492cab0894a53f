/**
 * What drives the algorithm, without a clock, a timer or a connection: one input after another, one timer, one call in
 * flight. An elector gives it real ones; `explore()` gives it every order of events there is.
 */
import { step } from './election.ts'
import { nextWakeMs, type Effect, type ElectionState, type Input, type Moment } from './election-state.ts'

/** What a driver cannot do by itself. */
export interface Host {
  /** The time, and chance, for an input that is made now. */
  moment(): Moment
  /** Carries an effect out. It may hand in more inputs, which are taken afterwards. */
  perform(effect: Effect): void
  /** Sets the one timer to a moment, in place of the one before; undefined: none. */
  wakeAt(atMs: number | undefined): void
  /** An input, and all that it set off, has been taken. */
  settled(): void
}

type Untimed<T> = T extends unknown ? Omit<T, keyof Moment> : never

/** An input before it is taken. */
export type InputBody = Untimed<Input>

/** What a driver remembers: data. */
export interface DriverState {
  readonly state: ElectionState
  /** When the timer that is set fires. */
  readonly wakeAtMs: number | undefined
  /** The call whose answer counts. */
  readonly flight: number | undefined
}

/** Drives one election. */
export class Driver implements DriverState {
  state: ElectionState
  wakeAtMs: number | undefined
  flight: number | undefined
  readonly #host: Host
  #inbox: Input[] | undefined

  constructor(host: Host, { state, wakeAtMs, flight }: DriverState) {
    this.#host = host
    this.state = state
    this.wakeAtMs = wakeAtMs
    this.flight = flight
  }

  /** Inputs are taken one after another: a listener that calls back in finds its input queued, not nested. */
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

  /** The timer has fired. */
  woken(): void {
    this.wakeAtMs = undefined
    this.dispatch({ type: 'wake' })
  }

  /** Whether this call is the one in flight; if so, it is no longer: what it gave, or its failure, is dispatched next. */
  lands(call: number): boolean {
    if (this.flight !== call) return false
    this.flight = undefined
    return true
  }

  #perform(effect: Effect): void {
    if (effect.type === 'call') this.flight = effect.call.id
    if (effect.type === 'cancel') this.flight = undefined
    this.#host.perform(effect)
    // After everything that listens to the end: work it handed in has been queued by now.
    if (effect.type === 'ended') this.dispatch({ type: 'end-told' })
  }

  #arm(): void {
    const atMs = nextWakeMs(this.state)
    // A timer that is early enough stays: each renewal seen puts the next wake off, and waking too early does no harm.
    if (atMs !== undefined && this.wakeAtMs !== undefined && this.wakeAtMs <= atMs) return
    this.wakeAtMs = atMs
    this.#host.wakeAt(atMs)
  }
}
