import { familyText, prometheusType, type Sample } from '@tenure/internal/prometheus'
import type { GlobalCallReport, RelayObserver } from '../calls/observer.ts'
import type { RelayLoad } from '../relay/relay.ts'

type WholeRelayObserver = { readonly [Name in keyof RelayObserver]-?: NonNullable<RelayObserver[Name]> }

/** An observer that collects and exposes metrics. */
export interface ControllerMetrics extends WholeRelayObserver {
  /** The value for the `content-type` header. */
  readonly contentType: string
  /** The current metrics in the Prometheus text format. */
  text(): string
}

type Family = readonly [name: string, type: string, help: string, samples: readonly Sample[]]

interface Sum {
  readonly labels: Readonly<Record<string, string>>
  count: number
  seconds: number
}

/**
 * Creates the metrics of a controller. The labels are the cluster and a few fixed words, so no resource has its own
 * series.
 */
export function controllerMetrics(
  cluster: string,
  now: () => RelayLoad & { readonly isFirst: boolean },
): ControllerMetrics {
  const calls = new Map<string, Sum>()
  const changes = new Map<string, number>()
  const errors = new Map<string, number>()
  let isHealthy: boolean | undefined
  let answers = 0
  let writes = 0
  let conflicts = 0

  const families = (): readonly Family[] => {
    const { resources, calls: calling, writes: writing, isFirst } = now()
    const queues = { call: calling, write: writing }
    return [
      ['resources', 'gauge', 'MultiClusterLeases that this controller serves.', [{ value: resources }]],
      ['first', 'gauge', 'Whether this controller answers first in its cluster: 1 or 0.', [{ value: Number(isFirst) }]],
      ['under_way', 'gauge', 'Calls to the global store and status writes in flight.', each(queues, 'running')],
      ['waiting', 'gauge', 'Calls to the global store and status writes that are queued.', each(queues, 'waiting')],
      [
        'backend_healthy',
        'gauge',
        'Whether the last call to the global store was answered: 1 or 0.',
        isHealthy === undefined ? [] : [{ value: Number(isHealthy) }],
      ],
      ['call_seconds', 'summary', 'Time that calls to the global store took, by verb and result.', sums(calls)],
      ['answers_total', 'counter', 'Answers written.', [{ value: answers }]],
      ['status_writes_total', 'counter', 'Status writes.', [{ value: writes }]],
      [
        'status_conflicts_total',
        'counter',
        'Status writes refused because the resource had changed.',
        [{ value: conflicts }],
      ],
      ['leadership_changes_total', 'counter', 'Changes of leadership observed, by kind.', counts(changes, 'change')],
      ['errors_total', 'counter', 'Failures to watch or write resources, by operation.', counts(errors, 'during')],
    ]
  }

  return {
    contentType: prometheusType,
    onCall: (report) => add(calls, report),
    onWritten(report) {
      writes += 1
      answers += report.answers
    },
    onConflict: () => void (conflicts += 1),
    onLeadership: ({ change }) => count(changes, change),
    onBackend: ({ healthy }) => void (isHealthy = healthy),
    onError: (_error, during) => count(errors, during),
    text: () =>
      families()
        .map((family) => textOf(cluster, ...family))
        .join(''),
  }
}

function each(queues: Readonly<Record<string, RelayLoad['calls']>>, what: keyof RelayLoad['calls']): Sample[] {
  return Object.entries(queues).map(([of, load]) => ({ labels: { of }, value: load[what] }))
}

function count(counters: Map<string, number>, label: string): void {
  counters.set(label, (counters.get(label) ?? 0) + 1)
}

function add(calls: Map<string, Sum>, { verb, result, durationMs }: GlobalCallReport): void {
  const key = `${verb} ${result}`
  const sum = calls.get(key) ?? { labels: { verb, result }, count: 0, seconds: 0 }
  sum.count += 1
  sum.seconds += durationMs / 1_000
  calls.set(key, sum)
}

function sums(calls: ReadonlyMap<string, Sum>): Sample[] {
  return [...calls.values()].flatMap(({ labels, seconds, count: value }) => [
    { labels, suffix: '_sum', value: seconds },
    { labels, suffix: '_count', value },
  ])
}

function counts(counters: ReadonlyMap<string, number>, label: string): Sample[] {
  return [...counters].map(([value, times]) => ({ labels: { [label]: value }, value: times }))
}

function textOf(cluster: string, name: string, type: string, help: string, samples: readonly Sample[]): string {
  const own = samples.map((sample) => ({ ...sample, labels: { cluster, ...sample.labels } }))
  return familyText(`tenure_controller_${name}`, type, help, own)
}
