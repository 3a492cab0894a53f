import { membersLimit } from '@tenure/internal/shard-assignment'
import type { LeaseRecord } from 'tenure'
import { decodeOffer, decodeReport, isMember, seatName } from 'tenure/internal'
import { noMetadata, type Group } from './in-memory-group.ts'
import type { MemberView } from './port.ts'

/** What the seat of a member says about it. */
export type SeatView = Required<Pick<MemberView, 'seat' | 'eligible'>> & Pick<MemberView, 'generation'>

/**
 * Adds the seats of a group to its members. A candidate of the library that runs with `present` holds the lease of a
 * seat, which is a separate group. A holder that sent nothing else, because it is not eligible or because this
 * process has just started, is added as a candidate. A node that did not name its start is identified by the attempt that
 * holds the seat, as on every other store.
 */
export function withSeats(
  members: readonly MemberView[],
  groupId: string,
  find: (groupId: string) => Group | undefined,
  nowMs: number,
): MemberView[] {
  const seated = new Map(members.map((member) => [member.nodeId, member]))
  for (let seat = 0; seat < membersLimit; seat += 1) {
    const group = find(seatName(groupId, seat))
    const lease = group?.lease
    if (!group || !lease?.isLive(nowMs)) continue
    const { nodeId, attempt } = lease
    const offer = decodeOffer({ metadata: JSON.parse(lease.metadata) as LeaseRecord['metadata'] })
    const known = seated.get(nodeId)
    // Requests and coordinators also take seats. Two processes of the same name show only the first seat.
    if (!isMember(offer) || known?.seat !== undefined) continue
    const { eligible } = decodeReport({ attempt, checkpoint: group.checkpoint })
    const { generation } = offer
    const view: SeatView = { seat, eligible, ...(generation !== undefined && { generation }) }
    const renewedMs = Math.max(known?.lastHeartbeatMs ?? 0, lease.renewedAtMs)
    const offered = JSON.stringify(offer.metadata)
    if (known && known.role !== 'allowed') {
      // A watch names its node, but does not say more about it.
      const metadata = known.metadata === noMetadata ? offered : known.metadata
      const { instance = attempt } = known
      seated.set(nodeId, { ...known, instance, lastHeartbeatMs: renewedMs, metadata, ...view })
    } else {
      const present = { nodeId, role: 'candidate', instance: attempt, waiting: false, live: true } as const
      seated.set(nodeId, { ...present, lastHeartbeatMs: renewedMs, metadata: offered, ...view })
    }
  }
  return [...seated.values()]
}
