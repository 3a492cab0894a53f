/**
 * Keeps a process present in a group: it holds the lease of one seat, and takes another when it loses that one.
 *
 * Presence is separate from the election. It never delays a call of the election, and an elector without a seat
 * contends like any other. It makes one call at a time and opens no watch. While it holds a seat, it renews once per
 * third of a lease. In addition, `seat-survey.ts` reads the seats of other processes.
 *
 * A member is the pair of seat and attempt. Each try uses a new elector, and so a new attempt: a process that lost its
 * seat comes back as another member, even on the same seat. The previous elector has stopped before the next try, so
 * a process holds at most one seat.
 */
import { pause } from '@tenure/internal/pause'
import type { Clock, Timer } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { messageOf } from '@tenure/internal/message'
import type { KnownLease } from '../election-state.ts'
import type { Elector, ElectorOptions } from '../elector.ts'
import type { ReleaseOnCrashOptions } from '../guard/elector-guard.ts'
import { rememberOrigin, storeOriginOf } from '../guard/store-origin.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseStore } from '../lease-store.ts'
import { timingsOf } from '../timings.ts'
import { encodeOffer, encodeReport, initialReport, type MemberOffer, type SeatReport } from './member-record.ts'
import { readSeat } from './read-lease.ts'
import { SeatSurvey, type SurveyHost } from './seat-survey.ts'
import { isTaken, observeSeat, seatName, unknownSeat } from './seats.ts'

/** A seat that this process holds, under the attempt that won it. */
export interface HeldSeat {
  readonly seat: number
  readonly attempt: string
  readonly leadership: Leadership
}

/** What shards need from a presence. They keep their own report in the checkpoint of the seat. */
export interface SeatOwner {
  /** What having no seat means for the process, as the end of a message. */
  readonly withoutSeat: string
  /** Whether this process may take a seat now. */
  mayTakeSeat(): boolean
  onSeatTaken(held: HeldSeat): void
}

/** What a presence needs to know about its process and group. */
export interface PresenceSettings extends MemberOffer {
  readonly store: LeaseStore
  readonly group: string
  readonly identity: string
  readonly leaseDurationMs: number
  readonly driftRatio: number
  readonly releaseOnCrash: boolean | ReleaseOnCrashOptions | undefined
  readonly clock: Clock
  /** Creates the elector of a seat. It is passed in, because the elector's own module uses this one. */
  createElector(options: ElectorOptions): Elector
  /** What it means for the process that it has no seat, as the end of a message. Default: it takes part in the election. */
  readonly withoutSeat?: string | undefined
  /** Called once for each problem that keeps this process from being present, until it has a seat again. */
  onProblem(error: TenureError): void
  /** The uses of what is read from the other seats. Undefined if this process need not read them. */
  readonly survey?: SurveyHost | undefined
  /** Undefined if the seat only shows that this process is present. */
  readonly owner?: SeatOwner | undefined
  /** How long the seat is kept after `stop()` for work that has not settled. Default: as in an elector. */
  readonly drainTimeoutMs?: number | undefined
}

/** The presence of this process in one group. */
export class Presence {
  readonly #settings: PresenceSettings
  readonly #store: LeaseStore
  readonly #renewIntervalMs: number
  readonly #retryIntervalMs: number
  readonly #end = new AbortController()
  readonly #seats: KnownLease[]
  readonly #survey: SeatSurvey | undefined
  #running: Promise<unknown> | undefined
  #elector: Elector | undefined
  #held: HeldSeat | undefined
  /** The codes of the problems that were reported since this process last had a seat. */
  readonly #problems = new Set<string>()
  /** When all seats were first found taken. Undefined if they are not. */
  #exhaustedSinceMs: number | undefined
  #report: SeatReport = initialReport
  /** The report that readers of the store see, and when it was written. */
  #written: SeatReport = initialReport
  #writtenAtMs = -Infinity
  #writer: Timer | 'writing' | undefined

  constructor(settings: PresenceSettings) {
    this.#settings = settings
    this.#store = seatStore(settings.store)
    const { leaseDurationMs, driftRatio, maxMembers } = settings
    const timings = timingsOf({ leaseDurationMs, driftRatio })
    this.#renewIntervalMs = timings.renewIntervalMs
    this.#retryIntervalMs = timings.retryIntervalMs
    this.#seats = Array.from({ length: maxMembers }, () => unknownSeat)
    const { signal } = this.#end
    this.#survey =
      settings.survey &&
      new SeatSurvey(settings.survey, { ...settings, store: this.#store, signal, ownSeat: () => this.seat })
  }

  /** The seat that this process holds now. Undefined if it holds none. */
  get seat(): number | undefined {
    return this.#elector?.leadsByClock() ? this.#held?.seat : undefined
  }

  /** Takes a seat and keeps it until `stop()`. Only the first call has an effect. */
  start(): void {
    if (!this.#end.signal.aborted) this.#running ??= Promise.all([this.#run(), this.#survey?.run()])
  }

  /**
   * Changes what this member reports. A change brings the next renewal forward, at most once per renew interval, so a
   * report that keeps changing costs at most one more write per interval.
   */
  report(report: SeatReport): void {
    this.#report = report
    this.#writeReport()
  }

  /** Gives up the seat that this process holds now. It takes another one when it may. */
  async leaveSeat(): Promise<void> {
    await this.#elector?.stop()
  }

  /** Releases the seat. Settles in bounded time. */
  async stop(): Promise<void> {
    this.#end.abort()
    if (typeof this.#writer === 'object') this.#writer.cancel()
    await this.#elector?.stop()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock } = this.#settings
    const { signal } = this.#end
    while (!signal.aborted) {
      const waitMs = await this.#beMember().catch((error: unknown) => this.#failed(error))
      await pause(clock, waitMs * (1 + clock.random() / 5), signal)
    }
  }

  /** Takes a seat and holds it until it is lost. Returns how long to wait before the next try. */
  async #beMember(): Promise<number> {
    const { signal } = this.#end
    if (this.#settings.owner?.mayTakeSeat() === false) return this.#retryIntervalMs
    for (let seat = await this.#findSeat(0); seat !== undefined; seat = await this.#findSeat(seat + 1)) {
      if (signal.aborted) return 0
      if (!(await this.#take(seat))) continue
      await this.#keep()
      return this.#retryIntervalMs
    }
    this.#exhausted()
    // A version must be seen twice, one lease apart, before its seat counts as expired.
    return this.#settings.leaseDurationMs
  }

  /** Reads the seats in order until one is free or expired. A seat whose record is invalid counts as taken. */
  async #findSeat(from: number): Promise<number | undefined> {
    const { group, clock, leaseDurationMs } = this.#settings
    for (let seat = from; seat < this.#seats.length; seat += 1) {
      const status = await readSeat(this.#store, seatName(group, seat), {
        clock,
        timeoutMs: this.#retryIntervalMs * 2,
        signal: this.#end.signal,
      })
      if (!status) continue
      const nowMs = clock.monotonicMs()
      const known = observeSeat(this.#seats[seat] ?? unknownSeat, status, { nowMs, ownDurationMs: leaseDurationMs })
      this.#seats[seat] = known
      if (!isTaken(known, nowMs)) return seat
    }
    return undefined
  }

  /** Tries once to take a seat. Returns false if another process was faster. */
  async #take(seat: number): Promise<boolean> {
    const { group, identity, leaseDurationMs, driftRatio, clock, releaseOnCrash } = this.#settings
    const elector = this.#settings.createElector({
      store: this.#store,
      election: seatName(group, seat),
      identity,
      leaseDurationMs,
      driftRatio,
      metadata: encodeOffer(this.#settings),
      releaseOnCrash,
      drainTimeoutMs: this.#settings.drainTimeoutMs,
      clock,
      // The election reports failures of the store. `onProblem` reports only problems of the seat.
      log: false,
    })
    this.#elector = elector
    elector.tryOnce(this.#seats[seat] ?? unknownSeat)
    try {
      const leadership = await elector.waitForLeadership()
      this.#held = { seat, leadership, attempt: elector.leader()?.attempt ?? '' }
      return true
    } catch (error) {
      await elector.stop()
      if (isTenureError(error) && error.code === 'BUSY') return false
      throw error
    }
  }

  /** Waits until the seat is lost or the presence stops. */
  async #keep(): Promise<void> {
    this.#problems.clear()
    this.#exhaustedSinceMs = undefined
    this.#written = initialReport
    this.#writeReport()
    if (this.#held) this.#settings.owner?.onSeatTaken(this.#held)
    const lost = this.#held?.leadership.signal
    if (lost && !lost.aborted) await new Promise((resolve) => lost.addEventListener('abort', resolve, { once: true }))
    this.#held = undefined
    await this.#elector?.stop()
  }

  /** Reports that all seats are taken once they have been for a whole lease. Before that, some may be expired. */
  #exhausted(): void {
    const { clock, leaseDurationMs, group, maxMembers } = this.#settings
    const nowMs = clock.monotonicMs()
    this.#exhaustedSinceMs ??= nowMs
    if (nowMs - this.#exhaustedSinceMs < leaseDurationMs) return
    const text = `All ${maxMembers} seats of "${group}" are taken, so this process is not among its members. ${this.#withoutSeat}, and takes a seat as soon as one is free. Set maxMembers above the number of processes, up to 100, in all of them.`
    this.#tell(new TenureError('SEATS_EXHAUSTED', text, { retryable: true }))
  }

  /** Returns how long to wait before the next try. */
  #failed(error: unknown): number {
    if (this.#end.signal.aborted) return 0
    const { code, retryable } = isTenureError(error) ? error : { code: 'BACKEND_UNAVAILABLE' as const, retryable: true }
    const text = `This process could not take a seat of "${this.#settings.group}", so it is not among its members. ${this.#withoutSeat}. ${messageOf(error)}`
    this.#tell(new TenureError(code, text, { retryable, cause: error }))
    return this.#retryIntervalMs
  }

  get #withoutSeat(): string {
    const { owner, withoutSeat = owner?.withoutSeat } = this.#settings
    return withoutSeat ?? 'It still takes part in the election'
  }

  #tell(error: TenureError): void {
    if (this.#problems.has(error.code)) return
    this.#problems.add(error.code)
    this.#settings.onProblem(error)
  }

  #writeReport(): void {
    const { clock } = this.#settings
    const held = this.#held
    const { eligible } = this.#report
    if (!held || this.#writer || this.#end.signal.aborted || eligible === this.#written.eligible) return
    const waitMs = this.#writtenAtMs + this.#renewIntervalMs - clock.monotonicMs()
    if (waitMs > 0) {
      this.#writer = clock.setTimer(waitMs, () => this.#writeAgain())
      return
    }
    const report = this.#report
    this.#writer = 'writing'
    this.#writtenAtMs = clock.monotonicMs()
    held.leadership.setCheckpoint(encodeReport(held.attempt, report)).then(
      () => {
        if (this.#held === held) this.#written = report
        this.#writeAgain()
      },
      // The seat is lost. The next one gets the report.
      () => this.#writeAgain(),
    )
  }

  #writeAgain(): void {
    this.#writer = undefined
    this.#writeReport()
  }
}

/**
 * The store as a seat's elector sees it: without a watch, because a presence never waits for one particular seat, and
 * without diagnostics, because the election has its own.
 */
function seatStore(store: LeaseStore): LeaseStore {
  const { expiry, terms, namespace, readsFirst } = store
  const { look } = store
  const seats: LeaseStore = {
    expiry,
    terms,
    ...(namespace !== undefined && { namespace }),
    ...(readsFirst !== undefined && { readsFirst }),
    read: (election, call) => store.read(election, call),
    acquire: (claim, call) => store.acquire(claim, call),
    renew: (claim, call) => store.renew(claim, call),
    release: (claim, call) => store.release(claim, call),
    ...(look && { look: (election, call) => look.call(store, election, call) }),
  }
  const origin = storeOriginOf(store)
  // With this, the guard of `releaseOnCrash` also releases the seat.
  if (origin) rememberOrigin(seats, origin)
  return seats
}
