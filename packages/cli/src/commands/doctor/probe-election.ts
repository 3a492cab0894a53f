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

/** The result of one round of concurrent writes, of which the store may apply one. */
export interface Heat {
  /** How many racers got the answer that their write was applied. */
  readonly winners: number
  /** How many calls failed, so that their outcome is unknown. */
  readonly failed: number
  /** Another process took the election, or the lease expired, so the round proves nothing. */
  readonly isDisturbed: boolean
  /** Whether no further round makes sense. */
  readonly isLast: boolean
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
  /** The store that was granted the lease. A file store has a liveness socket for each of its grants. */
  #heldIn: LeaseStore
  #record: LeaseRecord | undefined
  #renewedAtMs = 0
  #lost = 0
  #last: Promise<unknown> = Promise.resolve()
  #isLeft = false

  constructor(store: LeaseStore, options: PatientOptions) {
    this.store = store
    this.#heldIn = store
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
    this.#heldIn = this.store
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

  /** Releases the lease and, unless `keep` is set, removes the record. Returns whether the record is gone. */
  async release({ keep = false } = {}): Promise<boolean> {
    const held = this.#held
    if (!held) return false
    this.#held = undefined
    const store = this.#heldIn
    const release = () => callWithTimeout(this.#timeoutMs, (call) => store.release(held, call))
    const { answer } = await this.#time('release', release)
    return answer.ok && this.#forgets && !keep && this.#forget(answer.record)
  }

  /** Removes the record. If the store cannot forget, or refuses this user, a released record stays and does no harm. */
  async #forget({ election, version }: LeaseRecord): Promise<boolean> {
    const claim = { election, version, withTerm: true }
    const forget = callWithTimeout(this.#timeoutMs, async (call) => this.store.forget?.(claim, call))
    return forget.then(
      (answer) => answer?.ok === true,
      () => false,
    )
  }

  /**
   * Connects these stores and lets them read the election, so that their next writes are sent at the same time. Returns
   * those that could, and why the others could not.
   */
  async prepare(stores: readonly LeaseStore[]): Promise<{ ready: LeaseStore[]; refusal: string }> {
    const read = async (store: LeaseStore) => {
      await callWithTimeout(this.#timeoutMs, (call) => store.read(this.election, call))
      return store
    }
    const reads = await Promise.allSettled(stores.map(read))
    const refusal = reads.find((one) => one.status === 'rejected')
    return {
      ready: reads.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
      refusal: refusal ? commandErrorOf(refusal.reason).message : '',
    }
  }

  /** Renews the same version of the lease through all of these stores at once. */
  async raceRenewals(stores: readonly LeaseStore[]): Promise<Heat> {
    const held = this.#held
    if (!held) throw refused('lost the lease of this run')
    const { answer: heat } = await this.#time('renew', async () => {
      const renew = (store: LeaseStore) =>
        callWithTimeout(this.#timeoutMs, (call) => store.renew({ ...held, writeId: randomId() }, call))
      const counts = countsOf(await Promise.allSettled(stores.map(renew)))
      const record = await callWithTimeout(this.#timeoutMs, (call) => this.store.read(this.election, call))
      const hasExpired = now().machineMs - this.#renewedAtMs >= held.leaseDurationMs
      const isOurs = record?.attempt === held.attempt && !record.released
      if (isOurs && record.version !== held.version) this.#hold(held, record)
      return { ...counts, isDisturbed: counts.winners === 0 && (!isOurs || hasExpired), isLast: !isOurs }
    })
    return heat
  }

  /** Acquires the election, which must not exist, through all of these stores at once. */
  async raceAcquires(stores: readonly LeaseStore[]): Promise<Heat> {
    const { election } = this
    const { leaseDurationMs } = this.#timings
    const { answer: heat } = await this.#time('acquire', async () => {
      const claims = stores.map((store) => ({
        store,
        claim: { election, holder: this.#holder, attempt: randomId(), leaseDurationMs },
      }))
      const acquire = ({ store, claim }: (typeof claims)[number]) =>
        callWithTimeout(this.#timeoutMs, (call) =>
          store.acquire({ ...claim, afterTerm: 0, metadata: {}, writeId: randomId() }, call),
        )
      const counts = countsOf(await Promise.allSettled(claims.map(acquire)))
      const record = await callWithTimeout(this.#timeoutMs, (call) => this.store.read(election, call))
      const winner = claims.find(({ claim }) => claim.attempt === record?.attempt)
      if (record && winner) {
        this.#hold(winner.claim, record)
        this.#heldIn = winner.store
      }
      return { ...counts, isDisturbed: counts.winners === 0 && record !== undefined && !winner, isLast: !winner }
    })
    return heat
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

function countsOf(outcomes: readonly PromiseSettledResult<Outcome>[]): Pick<Heat, 'winners' | 'failed'> {
  const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.ok)
  return { winners: winners.length, failed: outcomes.filter(({ status }) => status === 'rejected').length }
}

function refused(what: string): CommandError {
  return new CommandError(`The store ${what}. Check whether its data is damaged.`, exitCodes.unavailable)
}
