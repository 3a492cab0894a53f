/**
 * What a process concludes from the seats that it has read. Pure functions on plain data.
 *
 * Neither conclusion can break safety: one delays a candidate by one step of `preference.ts`, and the other makes a
 * leader step down as `stepDown({ to })` does. Only a seat that is held counts, and only until its lease expires. So a
 * view that is stale delays a conclusion, and nothing counts forever. A request counts for one term, so each is
 * followed once: one whose process died does not end a later term, and two cannot make two processes hand over to each
 * other.
 */
import type { NewerGeneration } from '../preference.ts'

/** The holder of a seat: a member, or an administrator's request. */
export interface PresentMember {
  readonly identity: string
  readonly generation: number | undefined
  /** Whether the member could lead, as it reported last. */
  readonly eligible: boolean
  /** Whether its lease has certainly not expired. Otherwise the process may have crashed before the first read. */
  readonly live: boolean
  /** Whom a request names. Undefined for a member. */
  readonly handOverTo: string | undefined
  /** The term that a request asks to end. */
  readonly ofTerm: number | undefined
  /** When its lease expires without a renewal, on the monotonic clock of this process. */
  readonly untilMs: number
}

/** The present member of a higher generation that counts the longest. Undefined if there is none. */
export function newerGenerationIn(present: readonly PresentMember[], own: number): NewerGeneration | undefined {
  let newer: NewerGeneration | undefined
  for (const { generation, handOverTo, untilMs } of present) {
    if (handOverTo !== undefined || generation === undefined || generation <= own) continue
    if (!newer || untilMs > newer.untilMs) newer = { generation, untilMs }
  }
  return newer
}

/**
 * Whom this leader should hand over to, by the first request that it can follow: one for its own term that names another
 * process which is present, live and eligible.
 */
export function requestedSuccessor(
  present: readonly PresentMember[],
  { identity, term }: { readonly identity: string; readonly term: number },
): string | undefined {
  for (const { handOverTo: to, ofTerm } of present) {
    if (to === undefined || to === identity || ofTerm !== term) continue
    const member = memberNamed(present, to)
    if (member?.live && member.eligible) return to
  }
  return undefined
}

/** The present member with this identity. A candidate that restarted may have two seats: the live and eligible one counts. */
export function memberNamed(present: readonly PresentMember[], name: string): PresentMember | undefined {
  const named = present.filter(({ identity, handOverTo }) => handOverTo === undefined && identity === name)
  const live = named.filter((member) => member.live)
  return live.find(({ eligible }) => eligible) ?? live[0] ?? named.find(({ eligible }) => eligible) ?? named[0]
}
