import { collectDefaultMetrics, Registry } from 'prom-client'
import type { GroupFigures, ShownFigures } from '../groups/shown-groups.ts'
import { version } from '../version.ts'
import type { Change } from '../watch/feed.ts'
import { Durations, figure } from './histogram.ts'
import { largestLagMs, type ReplicasView } from './replicas.ts'

/** Figures that are computed when the metrics are read. */
export interface Gauges {
  /** The shortest lease of groups without a policy of their own. */
  readonly minTtlMs: number
  groups(): number
  /** What they take of the memory for groups. */
  groupBytes(): number
  readonly maxGroupBytes: number
  watchers(): number
  /** How long this process stood still while it answered for the groups. */
  stalledMs(): number
  /** Campaigns that wait in line. */
  waiting(): number
  /** Whether the store can make something durable now. */
  storeHealthy(): Promise<boolean>
  /** As this replica knows them by itself. */
  replicas(): ReplicasView
  lostLogLines(): number
  /** Of the groups that have series of their own. Undefined here: none was named; as an answer: it is not known here. */
  readonly namedGroups?: (() => ShownFigures | undefined) | undefined
}

/** Figures for Prometheus. Labels take a few fixed values only: no node, and no group but those that the operator named. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #campaigns = { granted: 0, refused: 0 }
  readonly #renewals = { granted: 0, refused: 0 }
  readonly #ended = { expired: 0, resigned: 0, deleted: 0 }
  readonly #requests = new Map<string, Map<number, Durations>>()
  readonly #writes = new Durations()
  readonly #deliveries = { sent: 0, withheld: 0 }
  #grants = 0
  #slow = 0
  #failedWrites = 0

  constructor(gauges: Gauges) {
    // The process and its event loop: nodejs_eventloop_lag_seconds and its like.
    collectDefaultMetrics({ register: this.#registry })
    const build = [{ labels: { version }, value: 1 }]
    this.#registry.registerMetric(figure('tenure_build_info', 'gauge', 'The version of Tenure that runs.', () => build))
    this.#count('tenure_grants_total', 'Terms that were granted.', () => this.#grants)
    this.#countBy('tenure_campaigns_total', 'Campaigns, by result.', 'result', this.#campaigns)
    this.#countBy('tenure_renewals_total', 'Renewals, by result.', 'result', this.#renewals)
    this.#countBy('tenure_terms_ended_total', 'Terms that ended, by reason.', 'reason', this.#ended)
    this.#count('tenure_slow_watchers_total', 'Watchers dropped because they read too slowly.', () => this.#slow)
    this.#countBy(
      'tenure_watch_events_total',
      'Events for watchers, by whether they were sent at once or withheld because of the limit of their subject.',
      'result',
      this.#deliveries,
    )
    this.#count('tenure_log_lines_lost_total', 'Lines of the log that could not be written.', gauges.lostLogLines)
    this.#gauge('tenure_groups', 'Groups that are kept.', gauges.groups)
    this.#gauge('tenure_groups_bytes', 'Memory that groups take, about.', gauges.groupBytes)
    this.#gauge('tenure_groups_bytes_limit', 'Memory that groups may take.', () => gauges.maxGroupBytes)
    this.#gauge(
      'tenure_min_ttl_seconds',
      'The shortest lease of groups without a policy of their own.',
      () => gauges.minTtlMs / 1000,
    )
    this.#count(
      'tenure_stalled_seconds_total',
      'How long the service stood still, for half a second or more at a time.',
      () => gauges.stalledMs() / 1000,
    )
    this.#gauge('tenure_watchers', 'Watchers that are connected.', gauges.watchers)
    this.#gauge('tenure_waiting_campaigns', 'Campaigns that wait in line.', gauges.waiting)
    this.#gauge('tenure_store_healthy', 'Whether the store can make something durable: 1 or 0.', async () =>
      Number(await gauges.storeHealthy()),
    )
    const replicas = (value: (view: ReplicasView) => number) => () => {
      const view = gauges.replicas()
      // A follower knows of nobody but itself.
      return view.active ? value(view) : 0
    }
    this.#gauge(
      'tenure_replica_active',
      'Whether this replica answers for the groups: 1 or 0.',
      replicas(() => 1),
    )
    this.#gauge(
      'tenure_replicas_connected',
      'Other replicas that are connected to this one, the active one.',
      replicas(({ followers }) => followers.length),
    )
    this.#gauge(
      'tenure_feed_lag_seconds',
      'Age of the oldest change that a connected replica has not confirmed; of the one that is furthest behind.',
      replicas((view) => largestLagMs(view) / 1000),
    )
    const latencies = 'tenure_request_duration_seconds'
    this.#histogram(latencies, 'Time from a request to its answer, by route and status.', () =>
      [...this.#requests].flatMap(([route, statuses]) =>
        [...statuses].flatMap(([status, durations]) => durations.values(latencies, { route, status: String(status) })),
      ),
    )
    const writes = 'tenure_store_write_seconds'
    this.#histogram(writes, 'Time until a write was durable.', () => this.#writes.values(writes, {}))
    this.#count('tenure_store_write_failures_total', 'Writes that failed.', () => this.#failedWrites)
    if (gauges.namedGroups) this.#groups(gauges.namedGroups)
  }

  /** Where they are not known there are no series: another replica has them, or nobody knows how the groups stand. */
  #groups(figures: () => ShownFigures | undefined): void {
    const each = (name: string, help: string, value: (group: GroupFigures) => number) => {
      const values = () =>
        figures()?.shown.map((group) => ({ labels: { group: group.groupId }, value: value(group) })) ?? []
      this.#registry.registerMetric(figure(name, 'gauge', help, values))
    }
    each('tenure_group_has_leader', 'Whether somebody leads the group: 1 or 0.', ({ hasLeader }) => Number(hasLeader))
    each('tenure_group_term', 'The newest term of the group.', ({ term }) => term)
    each(
      'tenure_group_lease_remaining_seconds',
      'Until the lease runs out unless it is renewed; 0 while nobody leads.',
      ({ remainingMs }) => remainingMs / 1000,
    )
    each(
      'tenure_group_since_change_seconds',
      'Since a term of the group began or ended.',
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
    const help = 'Groups that were named for metrics and have none, because there are too many.'
    this.#registry.registerMetric(figure('tenure_metrics_groups_left_out', 'gauge', help, leftOut))
  }

  campaign(granted: boolean): void {
    this.#campaigns[granted ? 'granted' : 'refused'] += 1
  }

  renewals(granted: boolean, count: number): void {
    this.#renewals[granted ? 'granted' : 'refused'] += count
  }

  change({ type, reason = 'expired' }: Change): void {
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

  /** `route` is one of our own patterns, never a path from a request. */
  request(route: string, status: number, seconds: number): void {
    let statuses = this.#requests.get(route)
    if (!statuses) this.#requests.set(route, (statuses = new Map()))
    let durations = statuses.get(status)
    if (!durations) statuses.set(status, (durations = new Durations()))
    durations.add(seconds)
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #count(name: string, help: string, value: () => number): void {
    this.#registry.registerMetric(figure(name, 'counter', help, () => [{ labels: {}, value: value() }]))
  }

  #countBy(name: string, help: string, label: string, counts: Readonly<Record<string, number>>): void {
    const values = () => Object.entries(counts).map(([key, value]) => ({ labels: { [label]: key }, value }))
    this.#registry.registerMetric(figure(name, 'counter', help, values))
  }

  #gauge(name: string, help: string, value: () => number | Promise<number>): void {
    this.#registry.registerMetric(figure(name, 'gauge', help, async () => [{ labels: {}, value: await value() }]))
  }

  #histogram(name: string, help: string, values: Parameters<typeof figure>[3]): void {
    this.#registry.registerMetric(figure(name, 'histogram', help, values))
  }
}
