/**
 * Runs the rules of `shard-member.ts` for one process: takes a seat, gives the rules what happens, and does what they ask
 * for. What a process owns is decided by those rules and the clock alone.
 */
import { Elector, type ElectorOptions } from '../engine/elector.ts'
import type { Leadership } from '../engine/leadership.ts'
import { Presence, type HeldSeat } from '../engine/members/presence.ts'
import { isVoluntaryEnd, LeadershipLostError, type TenureError } from '../common/errors.ts'
import type { Assignment, OwnershipReport } from './assignment.ts'
import { NotOwnerError } from './not-owner-error.ts'
import type { GroupMembership } from './options.ts'
import { ReportWriter } from './report-writer.ts'
import type { ShardReporter } from './shard-reporter.ts'
import { shardText } from './shard-reporter.ts'
import { ShardRun, type ShardWorkHost } from './shard-work.ts'
import {
  mayTakeSeat,
  memberStep,
  newMember,
  ownedToken,
  type MemberEffect,
  type MemberInput,
  type MemberState,
} from './shard-member.ts'

/** What a member needs from its process. */
export interface MemberHost {
  /**
   * A seat was taken, so the group should be read under its attempt. All shards of this process depend on its lease, and
   * no work has started under it yet.
   */
  onSeat(leadership: Leadership): void
  /** The lease of the seat was renewed. */
  onSeatRenewed(): void
  /** The newest assignment that this member acts on has changed. */
  onAssignment(assignment: Assignment): void
  /** Whether another process may take over shards, as far as is known. */
  hasOthers(): boolean
}

/** One process as a member of its group. */
export class MemberDriver {
  readonly #membership: GroupMembership
  readonly #reporter: ShardReporter
  readonly #host: MemberHost
  readonly #presence: Presence
  readonly #reports: ReportWriter
  readonly #runs = new Map<number, ShardRun>()
  readonly #workHost: ShardWorkHost
  readonly #inputs: MemberInput[] = []
  #state: MemberState
  #held: HeldSeat | undefined
  /** Why the last seat was lost. */
  #seatLoss: unknown
  #isStepping = false
  #isLeaving = false
  /** Called once nothing keeps this process on its seat. */
  #onFree: (() => void) | undefined
  #waiting = new Set<() => void>()

  constructor(membership: GroupMembership, reporter: ShardReporter, host: MemberHost) {
    this.#membership = membership
    this.#reporter = reporter
    this.#host = host
    const { keepsTerms, clock, group, timings, drainTimeoutMs, work } = membership
    const { leaseDurationMs, driftRatio, renewIntervalMs } = timings
    this.#state = newMember(keepsTerms)
    this.#reports = new ReportWriter(clock, renewIntervalMs, (report) => this.#take({ type: 'reported', report }))
    this.#workHost = {
      group,
      clock,
      drainTimeoutMs,
      retryDelayMs: timings.retryIntervalMs,
      work,
      look: () => void this.#believes(),
      onSettled: (run) => this.#settled(run),
      onUnsettled: (error) => this.#unsettled(error),
      onFailure: (error) => reporter.failed(error),
    }
    this.#presence = new Presence({
      ...membership,
      generation: undefined,
      leaseDurationMs,
      driftRatio,
      // Work has had its own time to settle. If it has not, the seat expires.
      drainTimeoutMs: 1,
      createElector: (options) => this.#seatElector(options),
      onProblem: (error) => reporter.failed(error),
      owner: {
        withoutSeat: 'It owns no shards',
        mayTakeSeat: () => !this.#isLeaving && mayTakeSeat(this.#state),
        onSeatTaken: (held) => this.#seatTaken(held),
      },
    })
  }

  get state(): MemberState {
    return this.#state
  }

  /** The attempt of the seat that this process holds. Empty if it holds none. */
  get attempt(): string {
    return this.#state.member?.attempt ?? ''
  }

  start(): void {
    this.#presence.start()
  }

  /** The token with which this process owns a shard now, by the clock. */
  tokenOf(shard: number): number | undefined {
    return ownedToken(this.#state, shard, this.#believes())
  }

  /** The work on a shard that this process owns. Undefined if its earlier work has not settled. */
  runOf(shard: number): ShardRun | undefined {
    const run = this.#runs.get(shard)
    return run && run.token === this.tokenOf(shard) && !run.isAborted ? run : undefined
  }

  /** Resolves when work has started or settled. */
  nextChange(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve))
  }

  /** Takes the answer to a linearizable read of the group's record. */
  read(assignment: Assignment | undefined, attempt: string): void {
    const before = this.#state.seen
    this.#take({ type: 'read', attempt, assignment })
    const { seen } = this.#state
    if (seen && seen !== before) this.#host.onAssignment(seen)
  }

  /** Hands the shards over, and gives up the seat. Settles in bounded time. */
  async leave(): Promise<void> {
    const { clock, handOverTimeoutMs } = this.#membership
    this.#isLeaving = true
    if (this.#state.member) {
      const free = new Promise<void>((resolve) => (this.#onFree = resolve))
      this.#take({ type: 'leave' })
      const close = () => this.#take({ type: 'close' })
      const timer = clock.setTimer(handOverTimeoutMs, close)
      if (!this.#host.hasOthers()) close()
      await free
      timer.cancel()
    }
    await this.#presence.stop()
    // Work that has not settled by its deadline has been reported.
    while ([...this.#runs.values()].some((run) => !run.isOverdue)) await this.nextChange()
  }

  /** Aborts all work of a process that leaves, instead of waiting until its shards are handed over. */
  close(): void {
    if (this.#isLeaving) this.#take({ type: 'close' })
  }

  #seatElector(options: ElectorOptions): Elector {
    const elector = new Elector(options)
    elector.onEvent = (event) => {
      if (event.type === 'renewed') this.#host.onSeatRenewed()
    }
    return elector
  }

  #believes(): boolean {
    return this.#held?.leadership.isLeader() ?? false
  }

  #seatTaken(held: HeldSeat): void {
    const { seat, attempt, leadership } = held
    this.#held = held
    this.#reporter.seatTaken(seat)
    this.#take({ type: 'seat-won', member: { seat, attempt } })
    const { signal } = leadership
    const onLost = () => this.#seatLost(held)
    signal.addEventListener('abort', onLost, { once: true })
    if (signal.aborted) onLost()
    this.#host.onSeat(leadership)
    if (this.#isLeaving) this.#take({ type: 'leave' })
  }

  #seatLost(held: HeldSeat): void {
    if (this.#held !== held) return
    this.#held = undefined
    this.#reporter.seatEnded()
    const reason: unknown = held.leadership.signal.reason
    this.#seatLoss = reason
    const runs = [...this.#runs.values()]
    const running = runs.filter((run) => !run.isAborted)
    if (!(reason instanceof LeadershipLostError && isVoluntaryEnd(reason.reason)))
      this.#reporter.seatLost(reason, running.length)
    // S1: the signals abort now, even if this is called within a step of the rules. Shards that were revoked before are
    // lost as well.
    for (const run of runs) this.#loseWithSeat(run)
    this.#take({ type: 'seat-lost' })
    this.#free()
  }

  #loseWithSeat(run: ShardRun): void {
    const text = `This process no longer owns shard ${shardText(run)} of "${this.#membership.group}", because it lost its seat.`
    run.abort(new NotOwnerError(text, run.shard, undefined, this.#seatLoss))
    this.#reporter.tell({ type: 'lost', ...nameOf(run), reason: 'seat-lost' })
  }

  #take(input: MemberInput): void {
    this.#inputs.push(input)
    if (this.#isStepping) return
    this.#isStepping = true
    try {
      for (let next = this.#inputs.shift(); next; next = this.#inputs.shift()) {
        // This may end the leadership, and then queues an input.
        const believes = this.#believes()
        const { state, effects } = memberStep(this.#state, next, believes)
        this.#state = state
        for (const effect of effects) this.#perform(effect)
      }
    } finally {
      this.#isStepping = false
    }
  }

  #perform(effect: MemberEffect): void {
    if (effect.do === 'abort') return this.#abort(effect.shard)
    if (effect.do === 'start') return this.#start(effect.shard, effect.token)
    if (effect.do === 'report') return this.#report(effect.report, effect.isUrgent)
    this.#free()
  }

  #start(shard: number, token: number): void {
    const { names } = this.#membership.settings
    const run = new ShardRun(this.#workHost, { shard, name: names?.[shard], token })
    this.#runs.set(shard, run)
    this.#reporter.tell({ type: 'gained', ...nameOf(run) })
    run.start()
    this.#changed()
  }

  #abort(shard: number): void {
    const run = this.#runs.get(shard)
    if (!run || run.isAborted) return
    // The seat was lost during the step that started this work.
    if (!this.#held) return this.#loseWithSeat(run)
    const { drainTimeoutMs, group } = this.#membership
    const text = `This process no longer owns shard ${shardText(run)} of "${group}", because it is handed over.`
    run.abort(new NotOwnerError(text, shard))
    this.#reporter.tell({ type: 'revoked', ...nameOf(run), settleWithinMs: drainTimeoutMs })
  }

  #report(report: OwnershipReport, isUrgent: boolean): void {
    if (this.#held) this.#reports.write(this.#held.leadership, report, isUrgent)
  }

  #settled(run: ShardRun): void {
    if (this.#runs.get(run.shard) !== run) return
    this.#runs.delete(run.shard)
    const isHandedOver = this.#held !== undefined
    this.#take({ type: 'settled', shard: run.shard })
    if (isHandedOver) this.#reporter.tell({ type: 'lost', ...nameOf(run), reason: 'handed-over' })
    this.#changed()
  }

  /** Rule 5: the seat is not released, so that the shard has another owner only after one lease. */
  #unsettled(error: TenureError): void {
    this.#reporter.failed(error)
    const held = this.#held
    if (held) {
      // The end of the seat aborts the work on all other shards too. The release waits for all of it, and gives up at once.
      held.leadership.waitUntil(this.#allSettled())
      void this.#presence.leaveSeat()
    }
    this.#changed()
  }

  #allSettled(): Promise<unknown> {
    return Promise.all([...this.#runs.values()].map(({ settled }) => settled))
  }

  #free(): void {
    this.#onFree?.()
    this.#onFree = undefined
  }

  #changed(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const resolve of waiting) resolve()
  }
}

function nameOf({ shard, name, token }: ShardRun): Pick<ShardRun, 'shard' | 'name' | 'token'> {
  return { shard, name, token }
}
