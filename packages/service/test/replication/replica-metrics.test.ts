import { expect, test } from 'vitest'
import { campaign, groupsOf, open, policy } from './scene.ts'

const groups = {
  policy,
  implicitGroups: true,
  maxGroups: 1_000,
  maxMembersPerGroup: 3,
  memberTtlMs: 60_000,
  metricsGroups: ['jobs'],
}

test('only the active replica has metrics of groups, from its first moment to its last', async () => {
  const { clock, leases, start } = open()
  let isCut = false
  const cut = new Proxy(leases, {
    get(target, name: keyof typeof leases) {
      const member: unknown = target[name]
      if (typeof member !== 'function') return member
      return (...args: unknown[]): unknown => (isCut ? new Promise(() => {}) : member.apply(target, args))
    },
  })
  const one = start('one', { leases: cut, groups })
  await clock.advance(10)
  const two = start('two', { groups })
  await clock.advance(3_000)
  const first = groupsOf(one)
  await campaign(first, 'a')
  expect(first.groupMetrics()?.shown).toMatchObject([{ groupId: 'jobs', hasLeader: true, term: 1 }])
  expect(two.now().kind).toBe('remote')
  isCut = true
  let both = 0
  for (let waited = 0; two.now().kind !== 'local' && waited < 20_000; waited += 10) {
    await clock.advance(10)
    const now = two.now()
    if (now.kind === 'local' && now.groups.groupMetrics() && first.groupMetrics()) both += 1
  }
  expect([both, first.groupMetrics()]).toEqual([0, undefined])
  // The lease that the new active replica found is still live, so the group has a leader.
  expect(groupsOf(two).groupMetrics()?.shown).toMatchObject([{ groupId: 'jobs', hasLeader: true, term: 1 }])
})
