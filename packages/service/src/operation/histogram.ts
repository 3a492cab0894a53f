import type { Metric } from 'prom-client'

/** In seconds. Leases last from milliseconds to seconds, so the buckets are finest in that range. */
const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

/** A histogram of durations for one set of labels. */
export class DurationHistogram {
  readonly #counts = new Float64Array(bounds.length + 1)
  #sum = 0

  add(seconds: number): void {
    let index = 0
    while (index < bounds.length && seconds > (bounds[index] ?? Infinity)) index++
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += seconds
  }

  values(name: string, labels: Readonly<Record<string, string>>): Value[] {
    let count = 0
    const buckets = [...bounds, Infinity].map((bound, index) => {
      count += this.#counts[index] ?? 0
      const le = bound === Infinity ? '+Inf' : String(bound)
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }
}

interface Value {
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/**
 * A metric that is computed when it is read. The counters and histograms of prom-client look up their labels for each
 * event, which is a large part of the cost of a renewal.
 */
export function computedMetric(
  name: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  values: () => readonly Value[] | Promise<readonly Value[]>,
): Metric {
  const metric = { name, get: async () => ({ name, help, type, aggregator: 'sum', values: await values() }) }
  return metric as unknown as Metric
}
