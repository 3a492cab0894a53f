import { collectDefaultMetrics, Registry } from 'prom-client'
import type { GroupMetricValues, GroupMetricsSnapshot } from '../groups/group-metrics.ts'
import type { GroupChange } from '../groups/port.ts'
import { DurationHistogram, computedMetric } from './histogram.ts'
import { largestLagMs, type ReplicasView } from '../replication/replica-views.ts'

/** Values that are computed when the metrics are read. */
export interface Gauges {
  /** The version of Tenure that is running. */
  readonly version: string
  /** The shortest lease duration of groups without their own policy. */
  readonly minTtlMs: number
  groups(): number
  /** How many bytes of the memory limit for groups are in use. */
  groupBytes(): number
  readonly maxGroupBytes: number
  watchers(): number
  /** How long this process was stalled while it was active. */
  stalledMs(): number
  /** Campaigns in the campaign queues. */
  waiting(): number
  /** Resolves to whether the store can write durably now. */
  storeHealthy(): Promise<boolean>
  /** The replicas that this replica knows without asking another one. */
  replicas(): ReplicasView
  lostLogLines(): number
  /**
   * Metrics of the groups that have their own series. The field is undefined if the operator named no groups. The
   * function returns undefined if this replica does not know them.
   */
  readonly namedGroups?: (() => GroupMetricsSnapshot | undefined) | undefined
}

/**
 * Metrics for Prometheus. Labels have only a few fixed values. A label never names a node, and names only groups that
 * the operator selected.
 */
export class Metrics {
  readonly #registry = new Registry()
  readonly #campaigns = { granted: 0, refused: 0 }
  readonly #renewals = { granted: 0, refused: 0 }
  readonly #ended = { expired: 0, resigned: 0, deleted: 0 }
  readonly #requests = new Map<string, Map<number, DurationHistogram>>()
  readonly #writes = new DurationHistogram()
  readonly #deliveries = { sent: 0, withheld: 0 }
  #grants = 0
  #slow = 0
  #failedWrites = 0

  constructor(gauges: Gauges) {
    // Metrics of the process and its event loop, such as nodejs_eventloop_lag_seconds.
    collectDefaultMetrics({ register: this.#registry })
    const build = [{ labels: { version: gauges.version }, value: 1 }]
    this.#registry.registerMetric(
      computedMetric('tenure_build_info', 'gauge', 'The version of Tenure that is running.', () => build),
    )
    this.#count('tenure_grants_total', 'Terms granted.', () => this.#grants)
    this.#countBy('tenure_campaigns_total', 'Campaigns, by result.', 'result', this.#campaigns)
    this.#countBy('tenure_renewals_total', 'Renewals, by result.', 'result', this.#renewals)
    this.#countBy('tenure_terms_ended_total', 'Terms that ended, by reason.', 'reason', this.#ended)
    this.#count('tenure_slow_watchers_total', 'Watchers dropped because they read too slowly.', () => this.#slow)
    this.#countBy(
      'tenure_watch_events_total',
      'Events for watchers, by whether they were sent at once or withheld by the rate limit of their subject.',
      'result',
      this.#deliveries,
    )
    this.#count('tenure_log_lines_lost_total', 'Log lines that could not be written.', gauges.lostLogLines)
    this.#gauge('tenure_groups', 'Groups in memory.', gauges.groups)
    this.#gauge('tenure_groups_bytes', 'Approximate memory that groups use.', gauges.groupBytes)
    this.#gauge('tenure_groups_bytes_limit', 'Memory that groups may use.', () => gauges.maxGroupBytes)
    this.#gauge(
      'tenure_min_ttl_seconds',
      'The shortest lease duration of groups without their own policy.',
      () => gauges.minTtlMs / 1000,
    )
    this.#count(
      'tenure_stalled_seconds_total',
      'Time for which the service was stalled, counting stalls of half a second or more.',
      () => gauges.stalledMs() / 1000,
    )
    this.#gauge('tenure_watchers', 'Connected watchers.', gauges.watchers)
    this.#gauge('tenure_waiting_campaigns', 'Campaigns that wait for their group to become free.', gauges.waiting)
    this.#gauge('tenure_store_healthy', 'Whether the store can write durably: 1 or 0.', async () =>
      Number(await gauges.storeHealthy()),
    )
    const replicas = (value: (view: ReplicasView) => number) => () => {
      const view = gauges.replicas()
      // A follower knows only its own values.
      return view.active ? value(view) : 0
    }
    this.#gauge(
      'tenure_replica_active',
      'Whether this replica is active and answers for the groups: 1 or 0.',
      replicas(() => 1),
    )
    this.#gauge(
      'tenure_replicas_connected',
      'Followers connected to this replica, 0 unless it is active.',
      replicas(({ followers }) => followers.length),
    )
    this.#gauge(
      'tenure_feed_lag_seconds',
      'Age of the oldest change that a connected follower has not confirmed, for the follower furthest behind.',
      replicas((view) => largestLagMs(view) / 1000),
    )
    const latencies = 'tenure_request_duration_seconds'
    this.#histogram(latencies, 'Time from a request to its response, by route and status.', () =>
      [...this.#requests].flatMap(([route, statuses]) =>
        [...statuses].flatMap(([status, durations]) => durations.values(latencies, { route, status: String(status) })),
      ),
    )
    const writes = 'tenure_store_write_seconds'
    this.#histogram(writes, 'Time until a write is durable.', () => this.#writes.values(writes, {}))
    this.#count('tenure_store_write_failures_total', 'Writes that failed.', () => this.#failedWrites)
    if (gauges.namedGroups) this.#groups(gauges.namedGroups)
  }

  /**
   * A replica without these values exports no such series. The active replica has the values, unless no replica is
   * active.
   */
  #groups(figures: () => GroupMetricsSnapshot | undefined): void {
    const each = (name: string, help: string, value: (group: GroupMetricValues) => number) => {
      const values = () =>
        figures()?.shown.map((group) => ({ labels: { group: group.groupId }, value: value(group) })) ?? []
      this.#registry.registerMetric(computedMetric(name, 'gauge', help, values))
    }
    each('tenure_group_has_leader', 'Whether the group has a leader: 1 or 0.', ({ hasLeader }) => Number(hasLeader))
    each('tenure_group_term', 'The newest term of the group.', ({ term }) => term)
    each(
      'tenure_group_lease_remaining_seconds',
      'Time until the lease expires unless it is renewed, 0 without a leader.',
      ({ remainingMs }) => remainingMs / 1000,
    )
    each(
      'tenure_group_since_change_seconds',
      'Time since a term of the group last began or ended.',
      ({ sinceChangeMs }) => sinceChangeMs / 1000,
    )
    each(
      'tenure_group_standbys',
      'Live standbys of the group: nodes that would take over from the leader.',
      ({ standbys }) => standbys,
    )
    const leftOut = () => {
      const known = figures()
      return known ? [{ labels: {}, value: known.leftOut }] : []
    }
    const help = 'Groups selected for metrics that have none, because there are too many.'
    this.#registry.registerMetric(computedMetric('tenure_metrics_groups_left_out', 'gauge', help, leftOut))
  }

  campaign(granted: boolean): void {
    this.#campaigns[granted ? 'granted' : 'refused'] += 1
  }

  renewals(granted: boolean, count: number): void {
    this.#renewals[granted ? 'granted' : 'refused'] += count
  }

  change({ type, reason = 'expired' }: GroupChange): void {
    if (type === 'LEADER_CHANGED') this.#grants += 1
    if (type === 'LEADER_LOST') this.#ended[reason] += 1
  }

  delivery(isMade: boolean): void {
    this.#deliveries[isMade ? 'sent' : 'withheld'] += 1
  }

  slowReader(): void {
    this.#slow += 1
  }

  storeWrite(seconds: number, durable: boolean): void {
    if (durable) this.#writes.add(seconds)
    else this.#failedWrites += 1
  }

  /** `route` is one of the service's own route patterns, never the path of a request. */
  request(route: string, status: number, seconds: number): void {
    let statuses = this.#requests.get(route)
    if (!statuses) this.#requests.set(route, (statuses = new Map()))
    let durations = statuses.get(status)
    if (!durations) statuses.set(status, (durations = new DurationHistogram()))
    durations.add(seconds)
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #count(name: string, help: string, value: () => number): void {
    this.#registry.registerMetric(computedMetric(name, 'counter', help, () => [{ labels: {}, value: value() }]))
  }

  #countBy(name: string, help: string, label: string, counts: Readonly<Record<string, number>>): void {
    const values = () => Object.entries(counts).map(([key, value]) => ({ labels: { [label]: key }, value }))
    this.#registry.registerMetric(computedMetric(name, 'counter', help, values))
  }

  #gauge(name: string, help: string, value: () => number | Promise<number>): void {
    this.#registry.registerMetric(
      computedMetric(name, 'gauge', help, async () => [{ labels: {}, value: await value() }]),
    )
  }

  #histogram(name: string, help: string, values: Parameters<typeof computedMetric>[3]): void {
    this.#registry.registerMetric(computedMetric(name, 'histogram', help, values))
  }
}
