import type { MemberAnswer } from './answers.ts'
import type { Election } from './elections.ts'
import { duration, visible } from './text.ts'

/** A handover that an administrator asked for on this page. */
export interface HandOver {
  readonly to: string
  /** The term that was ended. */
  readonly term: number
  /** When the ended lease would have expired, on the viewer's monotonic clock. Nobody leads before that. */
  readonly freeAtMs: number
}

/** How long the service leaves a free election to its successor, at most. */
const successorMs = 2_000

/** Whether this member can be named as the next leader: it would take over, and does not lead already. */
export function canHandOverTo(member: MemberAnswer, { leader }: Election): boolean {
  return leader !== undefined && member.node_id !== leader.node && member.live === true && member.eligible !== false
}

/** Describes in a sentence how far a handover has got. */
export function handOverText(
  { to, term, freeAtMs }: HandOver,
  { leader }: Pick<Election, 'leader'>,
  monotonicMs: number,
): string {
  const name = visible(to)
  if (leader && leader.term > term) {
    const { node } = leader
    return node === to
      ? `Handed over: ${name} leads in term ${leader.term}.`
      : `Not handed over: ${visible(node)} leads in term ${leader.term}, instead of ${name}.`
  }
  const leftMs = freeAtMs - monotonicMs
  if (leftMs > 0) return `Handing over to ${name}, which can lead in ${duration(leftMs)}…`
  if (leftMs > -2 * successorMs) return `Handing over to ${name}…`
  return `${name} has not taken over yet. Any candidate can lead now.`
}
