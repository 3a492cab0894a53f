import type { MultiClusterLease } from 'tenure/internal/multicluster'
import type { LeadershipReport } from '../calls/observer.ts'

/** How a status write changed the leader. */
export function leadershipChange(
  { status: before, namespace, name, uid }: MultiClusterLease,
  { status: after }: MultiClusterLease,
  cluster: string,
): readonly LeadershipReport[] {
  if (before.leader === after.leader && before.term === after.term) return []
  const { leader = '', term = 0 } = after
  const about = { namespace, name, uid }
  const wasHere = before.leader && before.cluster === cluster ? before.leader : undefined
  const isHere = leader !== '' && after.cluster === cluster
  const changes: LeadershipReport[] = []
  if (wasHere !== undefined) {
    const isReleased = after.term === before.term && after.record?.released === true
    changes.push({ ...about, change: isReleased ? 'released' : 'lost', identity: wasHere, term: before.term ?? 0 })
  }
  if (isHere) changes.push({ ...about, change: 'elected', identity: leader, term })
  else changes.push({ ...about, change: 'moved', identity: leader, term })
  return changes
}
