import { familyText, prometheusType } from '@tenure/internal/prometheus'
import { systemClock, type Clock } from './clock.ts'
import type { WholeObserver } from './events.ts'
import { ElectionFigures, families } from './figures.ts'
import { checkClock } from './options.ts'
import { checkOptions } from './options/check-options.ts'

/** An observer that counts, and what it has counted. */
export interface ElectionMetrics extends WholeObserver {
  /** For the header `content-type`. */
  readonly contentType: string
  /** The figures as they are now, in the text format of Prometheus. */
  text(): string
}

/**
 * Counts what the electors do whose observer it is, one or many, and shows it in the text format of Prometheus.
 * Beyond 1,000 elections, those of which nothing was heard for an hour are forgotten.
 *
 * @example
 * const metrics = electionMetrics()
 * const elector = new Elector({ store, election: 'payments', observer: metrics })
 * createServer((_, response) => response.setHeader('content-type', metrics.contentType).end(metrics.text())).listen(9090)
 */
export function electionMetrics(options: { readonly clock?: Clock | undefined } = {}): ElectionMetrics {
  checkOptions('electionMetrics()', options, { clock: true })
  checkClock(options.clock)
  const { clock = systemClock } = options
  const figures = new ElectionFigures(clock)
  return {
    contentType: prometheusType,
    onEvent: (event) => figures.onEvent(event),
    onCall: (call) => figures.onCall(call),
    text: () =>
      families.map((family) => familyText(family.name, family.type, family.help, figures.samplesOf(family))).join(''),
  }
}
