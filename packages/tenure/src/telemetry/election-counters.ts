import type { Sample } from '@tenure/internal/prometheus'
import type { Clock } from '../common/clock.ts'
import { isTenureError, lossReasons, type LossReason } from '../common/errors.ts'
import type { CallReport, ElectionEvent, Origin } from '../engine/events.ts'
import type { AssignmentReport, ShardEvent, ShardOrigin, WholeShardObserver } from '../shards/changes.ts'
import { shardFamilies, ShardMetrics } from './shard-metrics.ts'

/**
 * This many elections are kept even if nothing more is reported about them, so that an election without a leader
 * remains visible.
 */
const minKeptElections = 1_000
/**
 * Above that number, an election that has had no report for this long is dropped. No elector of this process takes part
 * in it, because even a standby polls its store more often.
 */
const forgottenMs = 3_600_000
/**
 * Fewer acquire calls than this can fail within one lease duration. The limit keeps an outage from filling the memory.
 */
const keptAttempts = 100

/** Collects metrics of electors and of shards, to be exposed in the Prometheus text format or through OpenTelemetry. */
export class ElectionMetricsCollector implements WholeShardObserver {
  readonly #clock: Clock
  readonly #elections = new Map<string, MetricsOfElection>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  onEvent(event: ElectionEvent): void {
    const nowMs = this.#clock.monotonicMs()
    this.#figuresOf(event, nowMs).add(event, nowMs)
  }

  onCall(call: CallReport): void {
    const nowMs = this.#clock.monotonicMs()
    this.#figuresOf(call, nowMs).addCall(call, nowMs)
  }

  onShard(event: ShardEvent): void {
    const nowMs = this.#clock.monotonicMs()
    const figures = this.#figuresOf(electionOf(event), nowMs)
    figures.shards ??= new ShardMetrics()
    figures.shards.add(event)
    if (event.type === 'error') figures.addError(event.error)
  }

  onAssignment(report: AssignmentReport): void {
    const nowMs = this.#clock.monotonicMs()
    const figures = this.#figuresOf(electionOf(report), nowMs)
    figures.shards ??= new ShardMetrics()
    figures.shards.assign(report, nowMs)
  }

  /** The current samples of one metric family for every election. */
  samplesOf({ nameLabel = 'election', samples }: MetricFamily): Sample[] {
    const nowMs = this.#clock.monotonicMs()
    return [...this.#elections.values()].flatMap((figures) => {
      const own = labelsOf(figures.origin, nameLabel)
      return samples(figures, nowMs).map((sample) => ({ ...sample, labels: { ...own, ...sample.labels } }))
    })
  }

  #figuresOf(origin: Origin, nowMs: number): MetricsOfElection {
    const elections = this.#elections
    const key = JSON.stringify([origin.namespace, origin.election])
    const figures = elections.get(key) ?? new MetricsOfElection(origin)
    figures.heardMs = nowMs
    // Reinsert at the end, because the map is ordered by the time of each election's last report.
    elections.delete(key)
    elections.set(key, figures)
    for (const [oldest, silent] of elections) {
      if (elections.size <= minKeptElections || nowMs - silent.heardMs < forgottenMs) break
      if (!silent.isHeld(nowMs)) elections.delete(oldest)
    }
    return figures
  }
}

/** The election of the coordinator of a group, which has the group's name. */
export function electionOf({ group, namespace, identity }: ShardOrigin): Origin {
  return { election: group, ...(namespace !== undefined && { namespace }), identity }
}

/** The labels that identify an election. */
export function labelsOf({ election, namespace }: Origin, nameLabel = 'election'): Record<string, string> {
  // The label is not "namespace", because Prometheus uses that name for the namespace of the pod.
  return { [nameLabel]: election, ...(namespace !== undefined && { lease_namespace: namespace }) }
}

type HeldEvent = Extract<ElectionEvent, { type: 'elected' | 'renewed' }>

/** The metrics of one election. */
export class MetricsOfElection {
  readonly origin: Origin
  /** The highest term seen. */
  term = 0
  grants = 0
  readonly ended = Object.fromEntries(lossReasons.map((reason) => [reason, 0])) as Record<LossReason, number>
  readonly errors = new Map<string, number>()
  readonly calls = new Map<string, { readonly call: CallReport; count: number; seconds: number }>()
  heardMs = 0
  /** Whether a guard was armed after the newest call. Undefined if there is none. */
  isGuarded: boolean | undefined
  /** The last reported answer from the option `eligible`. Undefined if it has never changed. */
  isEligible: boolean | undefined
  /** Whether this process held a seat after the newest call. Undefined if it takes none. */
  isPresent: boolean | undefined
  /** Undefined if this process takes no part in shards of this name. */
  shards: ShardMetrics | undefined
  #held: { readonly term: number; readonly leaseDurationMs: number; readonly untilMs: number } | undefined
  /** When the failed acquire calls were sent. Each of them may still have been granted the lease. */
  #attemptsMs: readonly number[] = []

  constructor(origin: Origin) {
    this.origin = origin
  }

  /**
   * Whether the lease is held at `nowMs`. This depends on the clock, because `lost` is reported only after the work has
   * ended.
   */
  isHeld(nowMs: number): boolean {
    return this.#held !== undefined && nowMs < this.#held.untilMs
  }

  add(event: ElectionEvent, nowMs: number): void {
    if ('record' in event) this.term = Math.max(this.term, event.record.term)
    if (event.type === 'elected') {
      this.grants += 1
      this.shards?.forgetAssignment()
    }
    if (event.type === 'elected' || event.type === 'renewed') this.#hold(event, nowMs)
    if (event.type === 'lost') {
      this.ended[event.reason] += 1
      if (this.#held?.term === event.term) this.#held = undefined
    }
    if (event.type === 'eligibility') this.isEligible = event.eligible
    if (event.type === 'error' || event.type === 'renew-failed') this.addError(event.error)
  }

  addError(error: unknown): void {
    const code = isTenureError(error) ? error.code : 'OTHER'
    this.errors.set(code, (this.errors.get(code) ?? 0) + 1)
  }

  /** Records a call. The report of a call comes directly after the event with its outcome. */
  addCall(call: CallReport, nowMs: number): void {
    const sentMs = nowMs - call.durationMs
    this.isGuarded = call.isGuarded
    this.isPresent = call.isPresent
    if (call.verb === 'acquire' && call.result === 'failed') {
      this.#attemptsMs = [...this.#attemptsMs.slice(1 - keptAttempts), sentMs]
    }
    if (this.#held && call.result === 'ok' && (call.verb === 'acquire' || call.verb === 'renew')) {
      // A lease counts from when its call was sent, because the store may have started counting then.
      const untilMs = Math.min(this.#held.untilMs, sentMs + this.#held.leaseDurationMs)
      this.#held = { ...this.#held, untilMs }
    }
    const key = `${call.verb} ${call.result}`
    const { count, seconds } = this.calls.get(key) ?? { count: 0, seconds: 0 }
    this.calls.set(key, { call, count: count + 1, seconds: seconds + call.durationMs / 1_000 })
  }

  #hold({ type, term, record: { leaseDurationMs } }: HeldEvent, nowMs: number): void {
    // A read may have found the grant of an earlier acquire call. A call older than the lease duration is excluded,
    // because its lease would have expired.
    const attemptMs = this.#attemptsMs.find((sentMs) => sentMs + leaseDurationMs > nowMs)
    const sinceMs = (type === 'elected' ? attemptMs : undefined) ?? nowMs
    this.#attemptsMs = []
    this.#held = { term, leaseDurationMs, untilMs: sinceMs + leaseDurationMs }
  }
}

export interface MetricFamily {
  readonly name: string
  readonly type: 'gauge' | 'counter' | 'summary'
  readonly help: string
  /** The label that holds the election's name. Default: `election`. */
  readonly nameLabel?: string
  samples(figures: MetricsOfElection, nowMs: number): readonly Sample[]
}

export const metricFamilies: readonly MetricFamily[] = [
  {
    // The name, the label, and the meaning match client-go.
    name: 'leader_election_master_status',
    type: 'gauge',
    help: 'Whether this replica holds the lease: 1 or 0.',
    nameLabel: 'name',
    samples: (figures, nowMs) => [{ value: Number(figures.isHeld(nowMs)) }],
  },
  {
    name: 'tenure_term',
    type: 'gauge',
    help: 'The highest term that this replica has seen.',
    samples: ({ term }) => [{ value: term }],
  },
  {
    name: 'tenure_guard_armed',
    type: 'gauge',
    help: 'Whether a guard would release the lease if this process crashed: 1 or 0. Absent without releaseOnCrash.',
    samples: ({ isGuarded }) => (isGuarded === undefined ? [] : [{ value: Number(isGuarded) }]),
  },
  {
    name: 'tenure_eligible',
    type: 'gauge',
    help: 'Whether this replica may lead, by its option eligible: 1 or 0. Absent until it has been ineligible at least once.',
    samples: ({ isEligible }) => (isEligible === undefined ? [] : [{ value: Number(isEligible) }]),
  },
  {
    name: 'tenure_member',
    type: 'gauge',
    help: 'Whether this process holds a seat among the members: 1 or 0. Absent without present.',
    samples: ({ isPresent }) => (isPresent === undefined ? [] : [{ value: Number(isPresent) }]),
  },
  {
    name: 'tenure_grants_total',
    type: 'counter',
    help: 'Terms that this replica was granted.',
    samples: ({ grants }) => [{ value: grants }],
  },
  {
    name: 'tenure_terms_ended_total',
    type: 'counter',
    help: 'Terms of this replica that ended, by reason.',
    samples: ({ ended }) => Object.entries(ended).map(([reason, value]) => ({ labels: { reason }, value })),
  },
  {
    name: 'tenure_errors_total',
    type: 'counter',
    help: 'Errors that were reported, by code.',
    samples: ({ errors }) => [...errors].map(([code, value]) => ({ labels: { code }, value })),
  },
  {
    name: 'tenure_store_call_seconds',
    type: 'summary',
    help: 'Time that calls to the store took, by verb and result.',
    samples: ({ calls }) =>
      [...calls.values()].flatMap(({ call: { verb, result }, count, seconds }) => [
        { labels: { verb, result }, suffix: '_sum', value: seconds },
        { labels: { verb, result }, suffix: '_count', value: count },
      ]),
  },
  ...shardFamilies,
]
