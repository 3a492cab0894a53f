import type { HeldClaim, LeaseRecord, LeaseStore, Outcome, Timings } from 'tenure'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { within } from '../shared/calls.ts'
import { now, randomId } from '../shared/clock.ts'
import { failureOf } from '../shared/failures.ts'
import { printable } from '../shared/output.ts'

/** One call, and how long its answer took. */
export interface Timed<T> {
  readonly answer: T
  readonly tookMs: number
}

interface PatientOptions {
  readonly election: string
  readonly holder: string
  readonly timings: Timings
  readonly timeoutMs: number
  /** Whether the election is the doctor's alone, so that nothing of it is to stay. */
  readonly forgets: boolean
}

/** An election of the doctor's own, in the store that is examined. */
export class Patient {
  readonly election: string
  readonly store: LeaseStore
  readonly #holder: string
  readonly #timings: Timings
  readonly #timeoutMs: number
  readonly #forgets: boolean
  #held: HeldClaim | undefined
  #record: LeaseRecord | undefined
  #renewedAtMs = 0
  #lost = 0
  #last: Promise<unknown> = Promise.resolve()
  #isLeft = false

  constructor(store: LeaseStore, options: PatientOptions) {
    this.store = store
    this.election = options.election
    this.#holder = options.holder
    this.#timings = options.timings
    this.#timeoutMs = options.timeoutMs
    this.#forgets = options.forgets
  }

  get renewIntervalMs(): number {
    return this.#timings.renewIntervalMs
  }

  /** How often its lease was lost, although it was renewed. */
  get lost(): number {
    return this.#lost
  }

  read(): Promise<Timed<LeaseRecord | undefined>> {
    return this.#time('read', () => within(this.#timeoutMs, (call) => this.store.read(this.election, call)))
  }

  /** `before` is what a read has shown. Gives the reason if there is no lease. */
  async acquire(before: LeaseRecord | undefined): Promise<CommandError | undefined> {
    const { election } = this
    const { leaseDurationMs } = this.#timings
    const claim = { election, holder: this.#holder, attempt: randomId(), leaseDurationMs }
    const timed = await this.#time('acquire', () =>
      within(this.#timeoutMs, (call) =>
        this.store.acquire({ ...claim, afterTerm: before?.term ?? 0, metadata: {} }, call),
      ),
    )
    const { answer } = timed
    if (!answer.ok) {
      const { record } = answer
      const why =
        record && !record.released ? `${printable(record.holder)} leads it in term ${record.term}` : 'nobody leads it'
      const text = `The store grants no lease of ${election}: ${why}. Choose another one with --election.`
      return new CommandError(text, exitCodes.unavailable)
    }
    this.#hold(claim, answer.record)
    return undefined
  }

  /** A lost lease is acquired again and counts as lost; how long the answer took is worth knowing all the same. */
  async renew(): Promise<Timed<LeaseRecord>> {
    const held = this.#held
    if (!held) throw refused('holds no lease')
    let { answer, tookMs } = await this.#renew(held)
    // An earlier renewal whose answer was lost has changed the version.
    const isNewer = answer.record?.version !== held.version && !answer.record?.released
    if (!answer.ok && answer.record?.attempt === held.attempt && isNewer) {
      const { version } = answer.record
      ;({ answer, tookMs } = await this.#renew({ ...held, version }))
    }
    if (!answer.ok) {
      this.#lost += 1
      return { answer: await this.#regain(), tookMs }
    }
    const { record } = answer
    if (record.attempt !== held.attempt) throw refused('grants what was not asked for')
    this.#hold(held, record)
    return { answer: record, tookMs }
  }

  /** Renews if it is time to: for a caller that does something else for long. */
  async keep(): Promise<void> {
    if (now().machineMs - this.#renewedAtMs >= this.#timings.renewIntervalMs) await this.renew()
  }

  async release(): Promise<void> {
    const held = this.#held
    if (!held) return
    this.#held = undefined
    const release = () => within(this.#timeoutMs, (call) => this.store.release(held, call))
    const { answer } = await this.#time('release', release)
    if (answer.ok && this.#forgets) await this.#forget(answer.record)
  }

  /** A store that cannot, or a user who may not, leaves a released record, which does no harm. */
  async #forget({ election, version }: LeaseRecord): Promise<void> {
    const claim = { election, version, withTerm: true }
    await within(this.#timeoutMs, async (call) => this.store.forget?.(claim, call)).catch(() => {})
  }

  /** Releases in the middle of everything. All other calls of this patient wait for ever. */
  async leave(): Promise<void> {
    this.#isLeft = true
    // Its answer shows which lease there is to release.
    await this.#last
    await this.release()
  }

  #renew(held: HeldClaim): Promise<Timed<Outcome>> {
    return this.#time('renew', () => within(this.#timeoutMs, (call) => this.store.renew(held, call)))
  }

  async #regain(): Promise<LeaseRecord> {
    this.#held = undefined
    const { answer } = await this.read()
    const refusal = await this.acquire(answer)
    if (refusal || !this.#record) throw refusal
    return this.#record
  }

  #hold(claim: Omit<HeldClaim, 'term' | 'version'>, record: LeaseRecord): void {
    this.#held = { ...claim, term: record.term, version: record.version }
    this.#record = record
    this.#renewedAtMs = now().machineMs
  }

  #time<T>(verb: string, call: () => Promise<T>): Promise<Timed<T>> {
    if (this.#isLeft && verb !== 'release') return new Promise(() => {})
    const timed = this.#timeNow(verb, call)
    this.#last = timed.then(
      // The answer is taken first.
      () => new Promise(setImmediate),
      () => {},
    )
    return timed
  }

  async #timeNow<T>(verb: string, call: () => Promise<T>): Promise<Timed<T>> {
    const sentAtMs = now().machineMs
    try {
      const answer = await call()
      return { answer, tookMs: now().machineMs - sentAtMs }
    } catch (error) {
      const { message, exitCode } = failureOf(error)
      throw new CommandError(`It cannot ${verb}. ${message}`, exitCode, { cause: error })
    }
  }
}

function refused(what: string): CommandError {
  return new CommandError(`The store ${what}. Is something wrong with its data?`, exitCodes.unavailable)
}
