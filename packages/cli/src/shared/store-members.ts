import type { MemberAnswer } from '@tenure/page/model/answers'
import { systemClock } from '@tenure/internal/clock'
import type { LeaseStore, Member } from 'tenure'
import { MemberObserver } from 'tenure/internal'

/** Observes the members of an election in a store that is not a service. */
export function observerOf(store: LeaseStore, election: string, timeoutMs: number): MemberObserver {
  return new MemberObserver(store, election, { clock: systemClock, timeoutMs })
}

/** Converts a member to the format of the HTTP API, so that the members of every store look the same. */
export function memberAnswerOf(member: Member): MemberAnswer {
  const { seat, identity, attempt, metadata, generation, eligible, leads, live, lastSeenMs } = member
  return {
    node_id: identity,
    role: leads ? 'leader' : 'candidate',
    last_heartbeat_ms: Math.round(systemClock.wallMs() - lastSeenMs),
    instance_start_uuid: attempt,
    metadata,
    ...(live !== undefined && { live }),
    seat,
    ...(generation !== undefined && { generation }),
    eligible,
  }
}
