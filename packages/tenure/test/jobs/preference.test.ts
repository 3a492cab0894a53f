import { expect, test } from 'vitest'
import { createJobs } from '../../src/jobs/index.ts'
import { fleet } from './fleet.ts'

const minute = 60_000

test.each([undefined, 'all-jobs'])(
  'a process that is not eligible runs no scheduled job, with the shared leader %s',
  async (sharedLeader) => {
    const on = fleet()
    const may = { a: false, b: true }
    for (const name of ['a', 'b'] as const) {
      const { jobs } = on.member(name, { sharedLeader, eligible: () => may[name] })
      jobs.every('*/5 * * * *', { name: 'sync' }, on.work(name, 1_000))
    }
    await on.clock.advance(11 * minute)
    expect(on.ran.map(({ by }) => by)).toEqual(['b', 'b'])
    Object.assign(may, { a: true, b: false })
    await on.clock.advance(10 * minute)
    expect(on.ran.map(({ by }) => by)).toEqual(['b', 'b', 'a', 'a'])
    await on.close()
    expect(on.clock.timers).toBe(0)
  },
)

test('a run that is started by hand does not ask whether the process is eligible', async () => {
  const on = fleet()
  const { jobs } = on.member('a', { eligible: () => false, priority: 'lowest' })
  const once = jobs.once('migrate', async () => undefined)
  const tried = jobs.tryRun('import', async () => undefined)
  await on.clock.advance(1_000)
  expect(await Promise.all([once, tried])).toEqual(['ran', 'ran'])
  await on.close()
})

test.each([
  [{ progressTimeoutMs: 1_000 }, /progressTimeoutMs/],
  [{ priority: 'high' }, /priority/],
  [{ eligible: true }, /eligible/],
])('createJobs rejects the options %j', (options, message) => {
  expect(() => createJobs({ store: fleet().memory, ...options } as never)).toThrow(message)
})
