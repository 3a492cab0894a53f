import type { HeldClaim, LeaseRecord, LeaseStore } from 'tenure'
import { within } from '../calls.ts'
import { now, randomId } from '../clock.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { printable } from '../output.ts'

/** One call, and how long its answer took. */
export interface Timed<T> {
  readonly answer: T
  readonly tookMs: number
}

/** An election of the doctor's own, in the store that is examined. */
export class Patient {
  readonly election: string
  readonly store: LeaseStore
  readonly #holder: string
  readonly #leaseDurationMs: number
  readonly #timeoutMs: number
  #held: HeldClaim | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isLeft = false

  constructor(
    store: LeaseStore,
    options: { election: string; holder: string; leaseDurationMs: number; timeoutMs: number },
  ) {
    this.store = store
    this.election = options.election
    this.#holder = options.holder
    this.#leaseDurationMs = options.leaseDurationMs
    this.#timeoutMs = options.timeoutMs
  }

  read(): Promise<Timed<LeaseRecord | undefined>> {
    return this.#time('read', () => within(this.#timeoutMs, (call) => this.store.read(this.election, call)))
  }

  /** `before` is what a read has shown. Gives why there is no lease, if so. */
  async acquire(before: LeaseRecord | undefined): Promise<CommandError | undefined> {
    const { election } = this
    const claim = { election, holder: this.#holder, attempt: randomId(), leaseDurationMs: this.#leaseDurationMs }
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
    const { term, version } = answer.record
    this.#held = { ...claim, term, version }
    return undefined
  }

  async renew(): Promise<Timed<LeaseRecord>> {
    const held = this.#held
    if (!held) throw refused('holds no lease')
    const timed = await this.#time('renew', () => within(this.#timeoutMs, (call) => this.store.renew(held, call)))
    const { answer, tookMs } = timed
    // An earlier renewal whose answer was lost may have changed the version: then this one is what shows it.
    const { record } = answer
    if (!record || record.attempt !== held.attempt) throw refused('has lost the lease while it was renewed')
    this.#held = { ...held, version: record.version }
    return { answer: record, tookMs }
  }

  async release(): Promise<void> {
    const held = this.#held
    if (!held) return
    this.#held = undefined
    await this.#time('release', () => within(this.#timeoutMs, (call) => this.store.release(held, call)))
  }

  /** Releases in the middle of everything. Whoever else waits for this one waits for ever. */
  async leave(): Promise<void> {
    this.#isLeft = true
    // Its answer tells which lease there is to release.
    await this.#last
    await this.release()
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
