import type { HeldClaim, LeaseRecord, LeaseStore, Outcome, Timings } from 'tenure'
import { CommandError, exitCodes } from '../../shared/arguments/errors.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { now, randomId } from '../../shared/clock.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import { printable } from '../../shared/output.ts'

/** The answer to one call, and how long it took. */
export interface Timed<T> {
  readonly answer: T
  readonly tookMs: number
}

interface PatientOptions {
  readonly election: string
  readonly holder: string
  readonly timings: Timings
  readonly timeoutMs: number
  /** Whether only the doctor uses this election. If so, its record is removed at the end. */
  readonly forgets: boolean
}

/** The doctor's probe election in the store under test. */
export class ProbeElection {
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

  /** How many times the lease was lost although it was renewed in time. */
  get lost(): number {
    return this.#lost
  }

  read(): Promise<Timed<LeaseRecord | undefined>> {
    return this.#time('read', () => callWithTimeout(this.#timeoutMs, (call) => this.store.read(this.election, call)))
  }

  /**
   * Campaigns once. `before` is the record that a read has returned. Returns the reason if the lease was not granted.
   */
  async acquire(before: LeaseRecord | undefined): Promise<CommandError | undefined> {
    const { election } = this
    const { leaseDurationMs } = this.#timings
    const claim = { election, holder: this.#holder, attempt: randomId(), leaseDurationMs }
    const timed = await this.#time('acquire', () =>
      callWithTimeout(this.#timeoutMs, (call) =>
        this.store.acquire({ ...claim, afterTerm: before?.term ?? 0, metadata: {} }, call),
      ),
    )
    const { answer } = timed
    if (!answer.ok) {
      const { record } = answer
      const why =
        record && !record.released ? `${printable(record.holder)} leads it in term ${record.term}` : 'it has no leader'
      const text = `The store did not grant a lease for ${election}: ${why}. Choose another election with --election.`
      return new CommandError(text, exitCodes.unavailable)
    }
    this.#hold(claim, answer.record)
    return undefined
  }

  /**
   * Renews the lease. A lost lease is counted in `lost` and acquired again. In both cases, returns how long the answer
   * took.
   */
  async renew(): Promise<Timed<LeaseRecord>> {
    const held = this.#held
    if (!held) throw refused('lost the lease of this run')
    let { answer, tookMs } = await this.#renew(held)
    // An earlier renewal took effect, but its answer was lost. So the record has a newer version than the one held
    // here.
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
    if (record.attempt !== held.attempt) throw refused('granted a lease that nobody asked for')
    this.#hold(held, record)
    return { answer: record, tookMs }
  }

  /** Renews the lease if a renewal is due. For callers that do something else for a long time. */
  async renewIfDue(): Promise<void> {
    if (now().machineMs - this.#renewedAtMs >= this.#timings.renewIntervalMs) await this.renew()
  }

  async release(): Promise<void> {
    const held = this.#held
    if (!held) return
    this.#held = undefined
    const release = () => callWithTimeout(this.#timeoutMs, (call) => this.store.release(held, call))
    const { answer } = await this.#time('release', release)
    if (answer.ok && this.#forgets) await this.#forget(answer.record)
  }

  /** Removes the record. If the store cannot forget, or refuses this user, a released record stays and does no harm. */
  async #forget({ election, version }: LeaseRecord): Promise<void> {
    const claim = { election, version, withTerm: true }
    await callWithTimeout(this.#timeoutMs, async (call) => this.store.forget?.(claim, call)).catch(() => {})
  }

  /** Releases the lease at once, whatever else is in flight. Every later call on this probe election waits forever. */
  async releaseNow(): Promise<void> {
    this.#isLeft = true
    // The call in flight may grant or renew the lease. The answer shows which version to release.
    await this.#last
    await this.release()
  }

  #renew(held: HeldClaim): Promise<Timed<Outcome>> {
    return this.#time('renew', () => callWithTimeout(this.#timeoutMs, (call) => this.store.renew(held, call)))
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
      // Let the caller process the answer first.
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
      const { message, exitCode } = commandErrorOf(error)
      throw new CommandError(`The ${verb} call failed. ${message}`, exitCode, { cause: error })
    }
  }
}

function refused(what: string): CommandError {
  return new CommandError(`The store ${what}. Check whether its data is damaged.`, exitCodes.unavailable)
}
