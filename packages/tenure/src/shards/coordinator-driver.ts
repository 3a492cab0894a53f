/**
 * Runs the rules of `coordinator.ts` while this process leads the group's election: reads the seats, writes the
 * assignment into the checkpoint of its own lease, and acquires and releases the seats of members that are over.
 */
import { membersLimit } from '@tenure/internal/shard-assignment'
import { callWithin } from '@tenure/internal/bound'
import { messageOf } from '@tenure/internal/message'
import { pause } from '@tenure/internal/pause'
import { invalidOption, isTenureError, TenureError } from '../common/errors.ts'
import { Elector } from '../engine/elector.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { CallOptions, HeldClaim, LeaseRecord, Outcome } from '../engine/lease-store.ts'
import { encodeOffer } from '../engine/members/member-record.ts'
import { seatName } from '../engine/members/seats.ts'
import type { Log } from '../log/log.ts'
import { checkOutcome } from '../engine/store-calls.ts'
import { balance } from './balance.ts'
import { decodeAssignment, encodeAssignment } from './codec.ts'
import {
  coordinatorStep,
  newCoordinator,
  seatsToRead,
  type CoordinatorEffect,
  type CoordinatorInput,
  type CoordinatorState,
  type CoordinatorTools,
} from './coordinator.ts'
import type { GroupMembership } from './options.ts'
import { readSeats } from './read-seats.ts'
import { isHeld, observed, type SeatRecord, type SeatView } from './seats.ts'
import type { ShardReporter } from './shard-reporter.ts'
import { UnownedShards } from './unowned-shards.ts'

/** What a coordinator needs from its process. */
export interface CoordinatorHost {
  /** The group's record may have changed. */
  onGroupChanged(): void
  /** The number of seats to read in order to see all members that own shards. */
  seatsInUse(): number
  /** This process cannot take part in the group. */
  onFatal(error: unknown): void
}

type UntimedInput = CoordinatorInput extends infer Input
  ? Input extends unknown
    ? Omit<Input, 'nowMs'>
    : never
  : never

const tools: CoordinatorTools = {
  balance,
  sizeOf: (assignment) => Buffer.byteLength(encodeAssignment(assignment)),
}

/** One process as a candidate for the coordinator of its group. */
export class CoordinatorDriver {
  readonly elector: Elector
  readonly #membership: GroupMembership
  readonly #reporter: ShardReporter
  readonly #host: CoordinatorHost
  #leadership: Leadership | undefined
  #state: CoordinatorState | undefined
  #unowned = new UnownedShards()
  #seenVersion: string | undefined
  #isStopping = false
  /** Aborted when the coordinator has renewed its lease, or another one was elected. */
  #silence: AbortController | undefined
  /** What this process saw of the seats in the current silence of the coordinator. */
  #seatsInSilence: readonly (SeatView | undefined)[] = []
  /** Why the last read of the seats failed. */
  #readError: unknown
  #hasRefusedMembers = false

  constructor(
    membership: GroupMembership,
    reporter: ShardReporter,
    host: CoordinatorHost,
    log: Log | false | undefined,
  ) {
    this.#membership = membership
    this.#reporter = reporter
    this.#host = host
    const { store, group, identity, timings, releaseOnCrash, clock } = membership
    const { leaseDurationMs, driftRatio } = timings
    this.elector = new Elector({
      store,
      election: group,
      identity,
      leaseDurationMs,
      driftRatio,
      releaseOnCrash,
      clock,
      log,
      observer: reporter.ofElections,
    })
    this.elector.onEvent = (event) => {
      if (event.type === 'elected') this.#elected(event.record)
    }
    this.elector.onStep = () => this.#stepped()
  }

  /** The state of this coordinator. Undefined if this process does not coordinate. */
  get state(): CoordinatorState | undefined {
    return this.#leadership?.isLeader() ? this.#state : undefined
  }

  /** Whether the last read of the seats showed another member that may take over shards. */
  othersLive(ownAttempt: string): boolean {
    const { seats = [] } = this.#state ?? {}
    return seats.some((view) => view && isHeld(view) && view.attempt !== ownAttempt)
  }

  start(): void {
    this.elector.start()
  }

  stop(): Promise<void> {
    this.#isStopping = true
    this.#silence?.abort()
    return this.elector.stop()
  }

  /** A new version of the record is a reason to read it. The elector learns of it by its watch, or by polling. */
  #stepped(): void {
    const record = this.elector.leader()
    if (record?.version === this.#seenVersion) return
    this.#seenVersion = record?.version
    this.#host.onGroupChanged()
    this.#silence?.abort()
    // I11: no timer may outlive stop().
    if (this.#isStopping) return
    // Its own record may be shown before it is elected.
    if (record?.holder === this.#membership.identity) return
    this.#seatsInSilence = []
    void this.#watchSilence((this.#silence = new AbortController()).signal)
  }

  /**
   * Reads the seats once if the coordinator misses a renewal. It has probably crashed, and so has the member in its
   * process. The next coordinator has then observed that seat for a part of the lease, so S3 does not cost two leases.
   */
  async #watchSilence(signal: AbortSignal): Promise<void> {
    const { clock, timings } = this.#membership
    const { renewIntervalMs, retryIntervalMs } = timings
    // A store without a watch shows a renewal only at the next poll.
    await pause(clock, renewIntervalMs + 1.5 * retryIntervalMs, signal)
    if (signal.aborted || this.elector.leader()?.released !== false) return
    const sentAtMs = clock.monotonicMs()
    try {
      const bounds = { timeoutMs: 2 * retryIntervalMs, signal }
      const records = await readSeats(this.#membership, { from: 0, to: this.#host.seatsInUse() }, bounds)
      if (signal.aborted) return
      this.#seatsInSilence = observed([], { sentAtMs, nowMs: clock.monotonicMs(), records })
    } catch {
      // Without these reads, a takeover only takes longer.
    }
  }

  #elected({ attempt, term, checkpoint }: LeaseRecord): void {
    const { clock, settings, timings, maxMembers, maxMoves, keepsTerms, checkpointLimitBytes, group } = this.#membership
    const leadership = this.elector.currentLeadership()
    if (!leadership) return
    const { retryIntervalMs } = timings
    const state = newCoordinator(
      {
        shards: settings,
        maxMembers,
        seatLimit: membersLimit,
        maxMoves,
        retryIntervalMs,
        writeIntervalMs: retryIntervalMs / 2,
        keepsTerms,
        checkpointLimitBytes,
      },
      {
        lineage: attempt,
        term,
        assignment: decodeAssignment(checkpoint),
        seats: this.#seatsInSilence,
        nowMs: clock.monotonicMs(),
      },
    )
    if (typeof state === 'string') return this.#host.onFatal(differentSetting(group, state, settings[state]))
    this.#leadership = leadership
    this.#state = state
    this.#unowned = new UnownedShards()
    this.#hasRefusedMembers = false
    void this.#run(leadership)
  }

  async #run(leadership: Leadership): Promise<void> {
    const { clock, timings } = this.#membership
    const { signal } = leadership
    // The elector's step ends first: what follows may call it.
    await Promise.resolve()
    while (!signal.aborted && this.#leadership === leadership) {
      await this.#readRound(leadership)
      await pause(clock, timings.retryIntervalMs, signal)
    }
    if (this.#leadership === leadership) this.#end()
  }

  async #readRound(leadership: Leadership): Promise<void> {
    const state = this.#state
    if (!state) return
    const { clock, timings } = this.#membership
    const sentAtMs = clock.monotonicMs()
    try {
      const records: (SeatRecord | undefined)[] = []
      const bounds = { timeoutMs: 2 * timings.retryIntervalMs, signal: leadership.signal }
      for (let count = seatsToRead(state, records); records.length < count; count = seatsToRead(state, records)) {
        records.push(...(await readSeats(this.#membership, { from: records.length, to: count }, bounds)))
      }
      this.#readError = undefined
      this.#take(leadership, { type: 'seats', sentAtMs, records })
    } catch (error) {
      if (leadership.signal.aborted) return
      this.#readError = error
      this.#take(leadership, { type: 'wake' })
    }
  }

  #take(leadership: Leadership, input: UntimedInput): void {
    if (this.#leadership !== leadership || !this.#state) return
    const nowMs = this.#membership.clock.monotonicMs()
    try {
      const { state, effects } = coordinatorStep(this.#state, { ...input, nowMs }, tools)
      this.#state = state
      if (input.type === 'seats' || input.type === 'written') this.#report(state, nowMs)
      for (const effect of effects) this.#perform(leadership, effect)
    } catch (error) {
      // The epochs of the group are exhausted. Nobody can coordinate it from now on.
      if (!isTenureError(error)) throw error
      this.#end()
      this.#host.onFatal(error)
    }
  }

  /** Before the first read of the seats, every owner would seem to be gone. */
  #report(state: CoordinatorState, nowMs: number): void {
    if (state.seats.length > 0 && this.#reporter.wantsAssignments) {
      this.#reporter.assigned(this.#unowned.report(state, nowMs))
    }
  }

  #perform(leadership: Leadership, effect: CoordinatorEffect): void {
    switch (effect.do) {
      case 'write':
        // A rejection means that the leadership has ended.
        leadership.setCheckpoint(encodeAssignment(effect.assignment)).then(
          () => this.#take(leadership, { type: 'written' }),
          () => undefined,
        )
        return
      case 'acquire-seat':
        return void this.#acquire(leadership, effect)
      case 'release-seat':
        return void this.#release(effect)
      case 'step-down':
        return this.#stepDown(effect)
      case 'refuse-members':
        return this.#refuseMembers()
    }
  }

  async #acquire(
    leadership: Leadership,
    { seat, claim }: CoordinatorEffect & { readonly do: 'acquire-seat' },
  ): Promise<void> {
    const { store, group, identity, clock, maxMembers, timings } = this.#membership
    const metadata = encodeOffer({ generation: undefined, maxMembers, metadata: {}, cleaning: true })
    const outcome = await this.#call(seat, 'acquire', (call) =>
      store.acquire(
        {
          ...claim,
          election: seatName(group, seat),
          holder: identity,
          leaseDurationMs: timings.leaseDurationMs,
          metadata,
          writeId: clock.randomId(),
        },
        call,
      ),
    )
    // Without an answer, the next read of the seats shows the outcome.
    const granted = outcome?.ok ? outcome.record : undefined
    this.#take(leadership, { type: 'seat-answer', attempt: claim.attempt, granted })
  }

  /** If this fails, the next read shows that the seat is still held, and it is released again. */
  async #release({ seat, record }: CoordinatorEffect & { readonly do: 'release-seat' }): Promise<void> {
    const { store, group, identity, clock, timings } = this.#membership
    const { attempt, term, version } = record
    const claim: HeldClaim = {
      election: seatName(group, seat),
      holder: identity,
      attempt,
      term,
      version,
      leaseDurationMs: timings.leaseDurationMs,
      writeId: clock.randomId(),
    }
    await this.#call(seat, 'release', (call) => store.release(claim, call))
  }

  /** Makes one call about a seat. Returns undefined if there is no answer. */
  async #call(
    seat: number,
    verb: string,
    call: (options: CallOptions) => Promise<Outcome>,
  ): Promise<Outcome | undefined> {
    const { group, clock, timings } = this.#membership
    const timeoutMs = 2 * timings.retryIntervalMs
    const text = `The store did not answer "${verb}" for "${seatName(group, seat)}" within ${Math.ceil(timeoutMs)} ms.`
    const late = () => new TenureError('TIMEOUT', text, { retryable: true })
    try {
      return await callWithin(undefined, { clock, timeoutMs, late, background: true }, async (signal) =>
        checkOutcome(await call({ signal, timeoutMs })),
      )
    } catch (error) {
      this.#readError = error
      return undefined
    }
  }

  #stepDown({ reason, afterTerm }: CoordinatorEffect & { readonly do: 'step-down' }): void {
    const { clock, group, timings } = this.#membership
    const { leaseDurationMs } = timings
    const isBlind = this.#state !== undefined && clock.monotonicMs() - this.#state.readAtMs >= leaseDurationMs
    const text = `This process steps down as the coordinator of "${group}": ${reason}${isBlind && this.#readError !== undefined ? `. ${messageOf(this.#readError)}` : '.'}`
    const error = new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: this.#readError })
    if (isBlind) this.#reporter.failed(error)
    this.#end()
    // Only a process that cannot see the seats leaves the election to others.
    void this.elector.stepDown({ cooldownMs: isBlind ? leaseDurationMs : 0 })
    this.elector.raiseTerm(afterTerm)
  }

  #refuseMembers(): void {
    if (this.#hasRefusedMembers) return
    this.#hasRefusedMembers = true
    const { group, checkpointLimitBytes } = this.#membership
    const text = `The assignment of "${group}" with all members would be longer than the ${checkpointLimitBytes} bytes that the store accepts, so further members get no shards. Use fewer shards, shorter names, or fewer members.`
    this.#reporter.failed(new TenureError('TOO_LARGE', text))
  }

  #end(): void {
    this.#leadership = undefined
    this.#state = undefined
  }
}

/** The error of a process whose settings differ from those of its group. */
export function differentSetting(group: string, setting: string, value: unknown): TypeError {
  const rule = `the other processes of the group "${group}" use another value. It must be the same in all of them, and a group keeps it forever. To change it, use a new group name`
  return invalidOption(setting, value, rule)
}
