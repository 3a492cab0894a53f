import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Change } from './feed.ts'

/** Figures for Prometheus. Labels take a few fixed values only: no group, no node. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #campaigns = this.#counter('tenure_campaigns_total', 'Campaigns, by result.', ['result'])
  readonly #renewals = this.#counter('tenure_renewals_total', 'Renewals, by result.', ['result'])
  readonly #ended = this.#counter('tenure_terms_ended_total', 'Terms that ended, by reason.', ['reason'])
  readonly #slow = this.#counter(
    'tenure_slow_watchers_total',
    'Watchers that were dropped because they read too slowly.',
    [],
  )
  readonly #requests = new Histogram({
    name: 'tenure_request_duration_seconds',
    help: 'Time from a request to its answer, by route and status.',
    labelNames: ['route', 'status'] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers: [this.#registry],
  })

  constructor(gauges: { groups(): number; watchers(): number }) {
    collectDefaultMetrics({ register: this.#registry })
    this.#gauge('tenure_groups', 'Groups that are kept.', gauges.groups)
    this.#gauge('tenure_watchers', 'Watchers that are connected.', gauges.watchers)
  }

  campaign(granted: boolean): void {
    this.#campaigns.inc({ result: granted ? 'granted' : 'refused' })
  }

  renewal(granted: boolean): void {
    this.#renewals.inc({ result: granted ? 'granted' : 'refused' })
  }

  change({ type, reason = 'expired' }: Change): void {
    if (type === 'LEADER_LOST') this.#ended.inc({ reason })
  }

  slowReader(): void {
    this.#slow.inc()
  }

  request(route: string, status: number, seconds: number): void {
    this.#requests.observe({ route, status: String(status) }, seconds)
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] })
  }

  #gauge(name: string, help: string, value: () => number): void {
    const gauge: Gauge = new Gauge({ name, help, registers: [], collect: () => gauge.set(value()) })
    this.#registry.registerMetric(gauge)
  }
}
