import { expect, test } from 'vitest'
import type { MemberAnswer } from '../../src/model/answers.ts'
import { isNobodyEligible, liveStandbysIn } from '../../src/model/members.ts'

const member = (node_id: string, more: Partial<MemberAnswer> = {}): MemberAnswer => ({
  node_id,
  role: 'candidate',
  last_heartbeat_ms: 0,
  metadata: {},
  live: true,
  ...more,
})

test('liveStandbysIn leaves out the leader, members that are not live, and members that are not eligible', () => {
  const members = [
    member('leader', { eligible: true }),
    member('seated', { eligible: true }),
    member('without a seat'),
    member('unfit', { eligible: false }),
    member('crashed', { live: false, eligible: true }),
  ]
  const standbys = liveStandbysIn(members, 'leader').map(({ node_id }) => node_id)
  expect(standbys).toEqual(['seated', 'without a seat'])
})

test('isNobodyEligible is true only if every live member says that it is not eligible', () => {
  const unfit = [member('a', { eligible: false }), member('b', { eligible: false })]
  expect(isNobodyEligible(unfit)).toBe(true)
  expect(isNobodyEligible([...unfit, member('c', { live: false, eligible: true })])).toBe(true)
  expect(isNobodyEligible([...unfit, member('c', { eligible: true })])).toBe(false)
  expect(isNobodyEligible([...unfit, member('without a seat')])).toBe(false)
  expect(isNobodyEligible([])).toBe(false)
})
