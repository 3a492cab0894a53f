import type { MemberAnswer } from './answers.ts'

/** Returns the members that would take over from the leader: live candidates that are not known to be ineligible. */
export function liveStandbysIn(members: readonly MemberAnswer[], leader: string | undefined): readonly MemberAnswer[] {
  return members.filter(({ live, node_id, eligible }) => live && node_id !== leader && eligible !== false)
}

/** Whether there are live candidates, and each of them says that it is not eligible. */
export function isNobodyEligible(members: readonly MemberAnswer[]): boolean {
  const live = members.filter((member) => member.live)
  return live.length > 0 && live.every(({ eligible }) => eligible === false)
}
