import type { Elector, ElectionMetrics } from 'tenure'
import { metricsReply } from '../../shared/metrics-server.ts'
import { failure, type Replies } from '../../shared/small-server.ts'
import type { LeasePromises } from './lease-promises.ts'

/** The routes of a sidecar. */
export function sidecarReplies(elector: Elector, promised: LeasePromises, metrics: ElectionMetrics): Replies {
  return {
    '/leader': () => ({ status: 200, body: answerOf(elector, promised) }),
    '/is-leader'() {
      const is_leader = promised.mayPromise && elector.isLeader()
      return { status: is_leader ? 200 : 503, body: { is_leader } }
    },
    '/healthz': () =>
      promised.mayPromise
        ? { status: 200, body: { ok: true, summary: elector.explain().summary } }
        : failure(503, 'BACKEND_UNAVAILABLE', 'The sidecar is stopping.'),
    '/metrics': () => metricsReply(metrics),
  }
}

/** Returns who leads, with the field names of the service's HTTP API. */
function answerOf(elector: Elector, promised: LeasePromises): object {
  const { isLeader, leader, leaseEndsInMs = 0 } = elector.explain()
  const is_leader = promised.mayPromise && isLeader
  // Round down, so that an answer never promises more than the lease has left.
  const lease_remaining_ms = Math.floor(leaseEndsInMs)
  if (is_leader) promised.note(lease_remaining_ms)
  // A caller that compares only names would conclude from its own name that it leads.
  const shown = leader && (is_leader || leader.holder !== elector.identity)
  return {
    election: elector.election,
    node_id: elector.identity,
    is_leader,
    leader: shown ? { node_id: leader.holder, term: leader.term, lease_remaining_ms, metadata: leader.metadata } : null,
  }
}
