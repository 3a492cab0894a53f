import type { Operation } from '../linearizable.ts'

/** The time during which a client may have believed that it was the leader, counted from when it sent its call. */
interface Belief {
  readonly node: string
  readonly term: number
  readonly fromMs: number
  untilMs: number
}

/**
 * Contradictions in the answers that the clients of one group received, regardless of the order of events: a term
 * granted to two clients, a term granted after a higher one, and two clients that believe at the same time that they
 * lead.
 */
export function contradictions(history: readonly Operation[]): string[] {
  return [...reusedTerms(history), ...overlaps(beliefsOf(history))]
}

function reusedTerms(history: readonly Operation[]): string[] {
  const found: string[] = []
  const nodes = new Map<number, string>()
  const grants: { readonly sentMs: number; readonly answeredMs: number; readonly term: number }[] = []
  for (const { call, answer, sentMs, answeredMs, node } of history) {
    const { leader } = answer ?? {}
    if (!answer || !leader) continue
    const known = nodes.get(leader.term) ?? leader.node
    nodes.set(leader.term, known)
    if (known !== leader.node) found.push(`term ${leader.term} belongs to both ${known} and ${leader.node}`)
    if (call.type !== 'campaign' || !answer.ok) continue
    if (leader.node !== node) found.push(`${node} was granted term ${leader.term} of ${leader.node}`)
    grants.push({ sentMs, answeredMs, term: leader.term })
  }
  const bySending = grants.toSorted((one, other) => one.sentMs - other.sentMs)
  const byAnswer = grants.toSorted((one, other) => one.answeredMs - other.answeredMs)
  let highest = 0
  let answered = 0
  for (const { sentMs, term } of bySending) {
    for (; (byAnswer[answered]?.answeredMs ?? Infinity) < sentMs; answered++) {
      highest = Math.max(highest, byAnswer[answered]?.term ?? 0)
    }
    if (term <= highest) found.push(`term ${term} was granted after term ${highest}`)
  }
  return found
}

function beliefsOf(history: readonly Operation[]): Belief[] {
  const beliefs = new Map<number, Belief>()
  for (const { call, answer, node, sentMs, answeredMs } of history.toSorted((a, b) => a.answeredMs - b.answeredMs)) {
    if (call.type === 'campaign' && answer?.ok && answer.leader) {
      const { term } = answer.leader
      beliefs.set(term, { node, term, fromMs: answeredMs, untilMs: sentMs + call.ttlMs })
    }
    const belief = call.type === 'renew' || call.type === 'resign' ? beliefs.get(call.term) : undefined
    if (!belief || belief.node !== node) continue
    if (call.type === 'renew' && answer?.ok) belief.untilMs = Math.max(belief.untilMs, sentMs + call.ttlMs)
    // Regardless of the outcome of the resignation, its sender no longer believes that it leads.
    if (call.type === 'resign') belief.untilMs = Math.min(belief.untilMs, sentMs)
  }
  return [...beliefs.values()].filter(({ fromMs, untilMs }) => fromMs < untilMs)
}

function overlaps(beliefs: readonly Belief[]): string[] {
  const inOrder = beliefs.toSorted((one, other) => one.fromMs - other.fromMs)
  const found: string[] = []
  let last: Belief | undefined
  for (const belief of inOrder) {
    if (last && last.untilMs > belief.fromMs) {
      const ms = Math.round(last.untilMs - belief.fromMs)
      found.push(`${last.node} in term ${last.term} and ${belief.node} in term ${belief.term} both led for ${ms} ms`)
    }
    if (!last || belief.untilMs > last.untilMs) last = belief
  }
  return found
}
