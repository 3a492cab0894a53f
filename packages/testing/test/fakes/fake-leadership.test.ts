import { expect, test } from 'vitest'
import { fakeLeadership } from '../../src/index.ts'

test.each([
  ['released', undefined],
  ['handed-over', { to: 'node-3' }],
] as const)('a fake leadership ends as %s when its work steps down with %o', (reason, options) => {
  const leadership = fakeLeadership({ term: 7 })
  expect(leadership.isLeader()).toBe(true)
  leadership.stepDown(options)
  expect(leadership.isLeader()).toBe(false)
  expect(leadership.signal.reason).toMatchObject({ code: 'LEADERSHIP_LOST', reason, term: 7 })
})
