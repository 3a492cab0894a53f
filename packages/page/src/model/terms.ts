/**
 * The terms of one election, with the leader, the start, and the end of each. States and changes may arrive in any
 * order.
 */
import type { TermEndReason, LeaseAnswer, PageEvent } from './answers.ts'

/** One term, as far as it is known. Times are Unix time on the server's clock. */
export interface Term {
  readonly term: number
  readonly node: string
  readonly fromMs: number | undefined
  /** Undefined while the term lasts, or if its end was not observed. */
  readonly toMs: number | undefined
  /** `unseen`: the term has ended, but the reason was not observed. */
  readonly end: TermEndReason | 'unseen' | undefined
}

/** Ordered by term, oldest first. */
export type Terms = readonly Term[]

/** The number of terms kept. Beyond it, the oldest are dropped. */
export const mostTerms = 500

/** Applies a running lease. */
export function withLease(terms: Terms, { term, node_id, acquired_at_ms }: LeaseAnswer): Terms {
  return merged(terms, { term, node: node_id, fromMs: acquired_at_ms || undefined, toMs: undefined, end: undefined })
}

/** Applies a lease that has ended. The term is known to have lasted until its last renewal. */
export function withPrevious(terms: Terms, { term, node_id, acquired_at_ms, renewed_at_ms }: LeaseAnswer): Terms {
  const toMs = Math.max(acquired_at_ms, renewed_at_ms) || undefined
  return merged(terms, { term, node: node_id, fromMs: acquired_at_ms || undefined, toMs, end: 'unseen' })
}

/** Applies a new change, or an older one that the service has recorded. */
export function withChange(terms: Terms, { type, term, leader_node_id: node, reason, ts_ms }: PageEvent): Terms {
  if (term === undefined || node === undefined) return terms
  if (type === 'LEADER_CHANGED') return merged(terms, { term, node, fromMs: ts_ms, toMs: undefined, end: undefined })
  if (type !== 'LEADER_LOST') return terms
  return merged(terms, { term, node, fromMs: undefined, toMs: ts_ms, end: reason ?? 'unseen' })
}

function merged(terms: Terms, news: Term): Terms {
  const at = terms.findLastIndex(({ term }) => term <= news.term)
  const known = terms[at]
  if (known?.term !== news.term) return closed([...terms.slice(0, at + 1), news, ...terms.slice(at + 1)])
  // A reason that was observed replaces `unseen`, no matter which came first.
  const isNews = news.end !== undefined && (known.end === undefined || known.end === 'unseen')
  const [toMs, end] = isNews && !(known.end === news.end) ? [news.toMs, news.end] : [known.toMs, known.end]
  const fromMs = known.fromMs ?? news.fromMs
  if (fromMs === known.fromMs && toMs === known.toMs && end === known.end) return terms
  return closed(terms.with(at, { ...known, fromMs, toMs, end }))
}

/** A term ends at the latest when the next one begins. */
function closed(terms: Terms): Terms {
  return terms.slice(-mostTerms).map((term, index, all) => {
    const next = all[index + 1]
    return next && term.end === undefined ? { ...term, toMs: next.fromMs, end: 'unseen' as const } : term
  })
}
