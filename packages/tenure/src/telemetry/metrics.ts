import { familyText, prometheusType } from '@tenure/internal/prometheus'
import { systemClock, type Clock } from '../common/clock.ts'
import type { WholeShardObserver } from '../shards/changes.ts'
import { ElectionMetricsCollector, metricFamilies } from './election-counters.ts'
import { checkClock } from '../engine/check-values.ts'
import { checkOptions } from '../common/check-options.ts'

/** An observer of electors and of shards that collects and exposes metrics. */
export interface ElectionMetrics extends WholeShardObserver {
  /** The value for the `content-type` header. */
  readonly contentType: string
  /** The current metrics in the Prometheus text format. */
  text(): string
}

/**
 * Collects metrics of all electors and shards that it observes, and exposes them in the Prometheus text format. Above 1,000
 * elections, those without any report for an hour are dropped.
 *
 * @example
 * const metrics = electionMetrics()
 * const elector = new Elector({ store, election: 'payments', observer: metrics })
 * createServer((_, response) => response.setHeader('content-type',
 * metrics.contentType).end(metrics.text())).listen(9090)
 */
export function electionMetrics(options: { readonly clock?: Clock | undefined } = {}): ElectionMetrics {
  checkOptions('electionMetrics()', options, { clock: true })
  checkClock(options.clock)
  const { clock = systemClock } = options
  const figures = new ElectionMetricsCollector(clock)
  return {
    contentType: prometheusType,
    onEvent: (event) => figures.onEvent(event),
    onCall: (call) => figures.onCall(call),
    onShard: (event) => figures.onShard(event),
    onAssignment: (report) => figures.onAssignment(report),
    text: () =>
      metricFamilies
        .map((family) => familyText(family.name, family.type, family.help, figures.samplesOf(family)))
        .join(''),
  }
}
