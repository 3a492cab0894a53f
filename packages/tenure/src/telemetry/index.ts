/** Spans and metrics of electors and of shards, through the user's own OpenTelemetry. */
import { systemClock, type Clock } from '../common/clock.ts'
import type { WholeShardObserver } from '../shards/changes.ts'
import { ElectionMetricsCollector, metricFamilies, labelsOf } from './election-counters.ts'
import { checkClock } from '../engine/check-values.ts'
import { checkOptions } from '../common/check-options.ts'
import { loadDriverSync } from '../store-kit/load-package.ts'
import type { TelemetryMeter, TelemetryMeterProvider, TelemetryTracerProvider } from './api.ts'
import { Spans } from './spans.ts'

export type {
  TelemetryMeter,
  TelemetryMeterProvider,
  TelemetryObservable,
  TelemetrySpan,
  TelemetryTracer,
  TelemetryTracerProvider,
} from './api.ts'

/** Options of {@link electionTelemetry}. */
export interface TelemetryOptions {
  /** Default: the global provider of `@opentelemetry/api`. */
  readonly meterProvider?: TelemetryMeterProvider | undefined
  /** Default: the global provider of `@opentelemetry/api`. */
  readonly tracerProvider?: TelemetryTracerProvider | undefined
  readonly clock?: Clock | undefined
}

interface OpenTelemetryApi {
  readonly metrics: { getMeterProvider(): TelemetryMeterProvider }
  readonly trace: { getTracerProvider(): TelemetryTracerProvider }
}

const scope = 'tenure'

/**
 * An observer that reports electors and shards to OpenTelemetry: a span for each store call, each term and each owned
 * shard, and the metrics of `electionMetrics()`. It can observe many electors, so create one per process. Without `meterProvider` and
 * `tracerProvider` it needs `npm install @opentelemetry/api` and an SDK that was started before.
 *
 * @example
 * const telemetry = electionTelemetry()
 * const elector = new Elector({ store, election: 'payments', observer: telemetry })
 */
export function electionTelemetry(options: TelemetryOptions = {}): WholeShardObserver {
  checkOptions('electionTelemetry()', options, { meterProvider: true, tracerProvider: true, clock: true })
  checkClock(options.clock)
  const { clock = systemClock } = options
  const meterProvider = options.meterProvider ?? loadApi().metrics.getMeterProvider()
  const tracerProvider = options.tracerProvider ?? loadApi().trace.getTracerProvider()
  const figures = new ElectionMetricsCollector(clock)
  const recordCall = callHistogram(meterProvider.getMeter(scope), figures)
  const spans = new Spans(tracerProvider.getTracer(scope), clock)
  return {
    onEvent(event) {
      figures.onEvent(event)
      spans.onEvent(event)
    },
    onCall(call) {
      figures.onCall(call)
      const { verb, result, durationMs } = call
      recordCall(durationMs / 1_000, { ...labelsOf(call), verb, result })
      spans.onCall(call)
    },
    onShard(event) {
      figures.onShard(event)
      spans.onShard(event)
    },
    onAssignment: (report) => figures.onAssignment(report),
  }
}

/**
 * The OpenTelemetry names of the families of `electionMetrics()`. A Prometheus exporter derives the same family names
 * from these.
 */
const names: Readonly<Record<string, { readonly name: string; readonly unit: string }>> = {
  leader_election_master_status: { name: 'leader_election.master_status', unit: '1' },
  tenure_term: { name: 'tenure.term', unit: '' },
  tenure_guard_armed: { name: 'tenure.guard.armed', unit: '' },
  tenure_eligible: { name: 'tenure.eligible', unit: '' },
  tenure_member: { name: 'tenure.member', unit: '' },
  tenure_grants_total: { name: 'tenure.grants', unit: '{term}' },
  tenure_terms_ended_total: { name: 'tenure.terms.ended', unit: '{term}' },
  tenure_errors_total: { name: 'tenure.errors', unit: '{error}' },
  tenure_shards_owned: { name: 'tenure.shards.owned', unit: '{shard}' },
  tenure_shard_moves_total: { name: 'tenure.shard.moves', unit: '{shard}' },
  tenure_shard_losses_total: { name: 'tenure.shard.losses', unit: '{shard}' },
  tenure_shards: { name: 'tenure.shards', unit: '{shard}' },
  tenure_shard_unowned_seconds: { name: 'tenure.shard.unowned', unit: 's' },
  tenure_shard_members: { name: 'tenure.shard.members', unit: '{member}' },
}
/** The upper bounds of the histogram's buckets, in seconds. Leases last seconds, and calls should take milliseconds. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** All metrics are read on each collection, except for the durations of calls, which cannot be read later. */
function callHistogram(meter: TelemetryMeter, figures: ElectionMetricsCollector) {
  for (const family of metricFamilies) {
    const instrument = names[family.name]
    if (!instrument) continue
    const { name, unit } = instrument
    const options = { description: family.help, unit }
    const made =
      family.type === 'counter'
        ? meter.createObservableCounter(name, options)
        : meter.createObservableGauge(name, options)
    made.addCallback((result) => {
      for (const { value, labels = {} } of figures.samplesOf(family)) result.observe(value, labels)
    })
  }
  const calls = meter.createHistogram('tenure.store.call', {
    description: 'Time that calls to the store took, by verb and result.',
    unit: 's',
    advice: { explicitBucketBoundaries: bounds },
  })
  return calls.record.bind(calls)
}

function loadApi(): OpenTelemetryApi {
  const instead = 'Or pass a meterProvider and a tracerProvider.'
  return loadDriverSync('@opentelemetry/api', 'electionTelemetry() needs OpenTelemetry', instead) as OpenTelemetryApi
}
