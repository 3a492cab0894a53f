import { describe, expect, test } from 'vitest'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { call } from '../promise-outcome.ts'
import { fleet } from './fleet.ts'

const minute = 60_000
const sharedLeader = 'billing'

describe('one leader for all jobs', () => {
  test('a shared leader runs all jobs in one process, each with its own record', async () => {
    const on = fleet()
    for (const name of ['a', 'b', 'c']) {
      const { jobs } = on.member(name, { sharedLeader })
      for (const job of ['one', 'two', 'three']) jobs.every({ minutes: 1 }, { name: job }, on.work(name, 1_000))
      await on.clock.advance(100)
    }
    await on.clock.advance(4.5 * minute)
    expect(on.ran).toHaveLength(12)
    expect(new Set(on.ran.map(({ by }) => by))).toEqual(new Set(['a']))
    for (const { scheduledAt, atMs } of on.ran) expect(atMs - Date.parse(scheduledAt)).toBeLessThan(5)
    for (const job of ['one', 'two', 'three']) {
      const record = await on.memory.read(job, call)
      // No process holds the job's lease between its scheduled times.
      expect(record?.released).toBe(true)
      expect(jobStateOf(record?.checkpoint ?? '')?.runs).toHaveLength(4)
    }
    await on.close()
    expect(on.clock.timers).toBe(0)
  })

  test('another process takes over when the shared leader crashes, and no time runs twice', async () => {
    const on = fleet()
    const a = on.member('a', { sharedLeader })
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a', 30_000))
    await on.clock.advance(100)
    const b = on.member('b', { sharedLeader })
    b.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('b', 1_000))
    await on.clock.advance(minute + 1_000)
    a.crash()
    await on.clock.advance(3 * minute)
    const slots = on.ran.map(({ by, scheduledAt }) => `${by} ${scheduledAt.slice(14, 19)}`)
    expect(slots).toEqual(['a 01:00', 'b 02:00', 'b 03:00', 'b 04:00'])
    await on.close()
  })

  test("a shared leader continues a job after it lost only that job's lease", async () => {
    const on = fleet()
    const a = on.member('a', { sharedLeader })
    a.jobs.every({ seconds: 20 }, { name: 'sync' }, on.work('a', 15_000))
    await on.clock.advance(21_000)
    expect(on.ran).toHaveLength(1)
    a.link.fault = (_, election) => (election === 'sync' ? 'error' : undefined)
    await on.clock.advance(20_000)
    a.link.fault = () => undefined
    await on.clock.advance(minute)
    const [first, ...later] = on.ran.map(({ scheduledAt }) => scheduledAt.slice(14, 19))
    expect(first).toBe('00:20')
    expect(later).toEqual(expect.arrayContaining(['01:00', '01:20', '01:40']))
    expect(await on.memory.read(sharedLeader, call)).toMatchObject({ term: 1, released: false })
    await on.close()
  })

  test('a process regains shared leadership during a long run, and the other jobs do not wait for that run', async () => {
    const on = fleet()
    const a = on.member('a', { sharedLeader })
    a.jobs.every({ hours: 1 }, { name: 'long' }, on.work('long', 30 * minute))
    a.jobs.every({ minutes: 1 }, { name: 'short' }, on.work('short', 1_000))
    await on.clock.advance(61 * minute)
    a.link.fault = (_, election) => (election === sharedLeader ? 'error' : undefined)
    await on.clock.advance(12_000)
    a.link.fault = () => undefined
    await on.clock.advance(5 * minute)
    expect(await on.memory.read(sharedLeader, call)).toMatchObject({ term: 2, released: false })
    const since = on.ran.filter(({ atMs }) => atMs > on.clock.wallMs() - 4 * minute)
    expect(since.map(({ by }) => by)).toEqual(Array(4).fill('short'))
    await on.clock.advance(70 * minute)
    const long = on.ran.filter(({ by }) => by === 'long')
    expect(long.map(({ scheduledAt }) => scheduledAt.slice(11, 16))).toEqual(['01:00', '02:00'])
    expect(long[0]?.endedMs).toBe(Date.parse('2030-01-01T01:30:00Z'))
    await on.close()
    expect(on.clock.timers).toBe(0)
  })

  test('a shared leader records missed times only once', async () => {
    const on = fleet()
    const hourly = (name: string) => {
      const member = on.member(name, { sharedLeader })
      member.jobs.every('0 * * * *', { name: 'hourly' }, on.work(name))
      return member
    }
    const a = hourly('a')
    await on.clock.advance(61 * minute)
    await Promise.all([a.jobs.close(), on.clock.advance(minute)])
    await on.clock.advance(180 * minute)
    const b = hourly('b')
    await on.clock.advance(minute)
    await Promise.all([b.jobs.close(), on.clock.advance(minute)])
    const c = hourly('c')
    await on.clock.advance(60 * minute)
    const [status] = await c.jobs.status()
    expect(
      status?.runs.map(({ scheduledAt, result }) => `${scheduledAt.toISOString().slice(11, 16)} ${result}`),
    ).toEqual(['05:00 succeeded', '04:00 missed', '01:00 succeeded'])
    expect([b, c].flatMap(({ events }) => events.filter(({ type }) => type === 'missed'))).toHaveLength(1)
    await on.close()
  })

  test('a shared leader runs jobs that are added later and drops stopped ones', async () => {
    const on = fleet()
    const { jobs } = on.member('a', { sharedLeader })
    const first = jobs.every({ minutes: 1 }, { name: 'first' }, on.work('first'))
    await on.clock.advance(1.5 * minute)
    jobs.every({ minutes: 1 }, { name: 'second' }, on.work('second'))
    await Promise.all([first.stop(), on.clock.advance(10)])
    await on.clock.advance(minute)
    expect(on.ran.map(({ by }) => by)).toEqual(['first', 'second'])
    await on.close()
  })

  test('a job cannot have the name of the shared leader', async () => {
    const { jobs } = fleet().member('a', { sharedLeader })
    expect(() => jobs.every({ hours: 1 }, { name: sharedLeader }, () => undefined)).toThrow(
      /another job or by the shared leader/,
    )
    await expect(jobs.once(sharedLeader, () => undefined)).rejects.toThrow(/another job or by the shared leader/)
  })

  test('closing the shared leader lets its run finish and releases both leases', async () => {
    const on = fleet()
    const a = on.member('a', { sharedLeader })
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    })
    await on.clock.advance(minute + 1_000)
    await Promise.all([a.jobs.close(), on.clock.advance(5_000)])
    const [record, leader] = await Promise.all(['sync', sharedLeader].map((name) => on.memory.read(name, call)))
    expect([record?.released, leader?.released]).toEqual([true, true])
    expect(jobStateOf(record?.checkpoint ?? '')?.runs).toMatchObject([{ result: 'succeeded' }])
    expect(on.clock.timers).toBe(0)
  })

  test(
    'a shared leader makes no calls for jobs that are not due, so a thousand jobs cost one lease',
    { timeout: 120_000 },
    async () => {
      const on = fleet()
      const a = on.member('a', { sharedLeader })
      for (let job = 0; job < 1_000; job += 1) a.jobs.every({ days: 365 }, { name: `job-${job}` }, on.work('a'))
      await on.clock.advance(minute)
      const before = a.link.calls.length
      await on.clock.advance(minute)
      // The leader sends one renewal every five seconds.
      expect(a.link.calls.length - before).toBeLessThan(20)
      await on.close()
    },
  )
})

test('a thousand jobs with their own leaders all run on time', { timeout: 120_000 }, async () => {
  const on = fleet()
  const a = on.member('a')
  for (let job = 0; job < 1_000; job += 1) {
    a.jobs.every({ minutes: 1 }, { name: `job-${job}` }, on.work('a'))
  }
  await on.clock.advance(1.2 * minute)
  expect(on.ran).toHaveLength(1_000)
  for (const { scheduledAt, atMs } of on.ran) expect(atMs - Date.parse(scheduledAt)).toBeLessThan(50)
  await on.close()
})
