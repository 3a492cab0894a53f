import { describe, expect, test } from 'vitest'
import { Elector } from '../../src/index.ts'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { createJobs } from '../../src/jobs/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { ttlStore } from '../../src/store-kit/ttl-store.ts'
import { call } from '../promise-outcome.ts'
import { fleet, type Fleet } from './fleet.ts'

const minute = 60_000
const hour = 60 * minute
const times = ({ ran }: Fleet) => ran.map(({ scheduledAt }) => scheduledAt.slice(11, 19))

describe('a scheduled job', () => {
  test('every scheduled time runs once in the fleet, on time', async () => {
    const on = fleet()
    for (const name of ['a', 'b', 'c']) {
      on.member(name).jobs.every('*/5 * * * *', { name: 'sync' }, on.work(name, 1_000))
    }
    await on.clock.advance(21 * minute)
    expect(times(on)).toEqual(['00:05:00', '00:10:00', '00:15:00', '00:20:00'])
    for (const { scheduledAt, atMs } of on.ran) expect(atMs - Date.parse(scheduledAt)).toBeLessThan(5)
    await on.close()
    expect(on.clock.timers).toBe(0)
  })

  test('a job moves to another process after a run, so that jobs spread over the fleet', async () => {
    const on = fleet()
    for (const name of ['a', 'b', 'c']) {
      const { jobs } = on.member(name)
      for (const job of ['one', 'two', 'three', 'four']) jobs.every({ minutes: 1 }, { name: job }, on.work(name))
    }
    await on.clock.advance(5.5 * minute)
    expect(on.ran).toHaveLength(20)
    expect(new Set(on.ran.map(({ by }) => by)).size).toBe(3)
    await on.close()
  })

  test('a process that is alone runs its job on time', async () => {
    const on = fleet()
    on.member('a').jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a'))
    await on.clock.advance(10 * minute)
    expect(on.ran).toHaveLength(10)
    for (const { scheduledAt, atMs } of on.ran) expect(atMs - Date.parse(scheduledAt)).toBeLessThan(5)
    await on.close()
  })

  test('a run is recorded before it begins, so that no process runs its scheduled time again', async () => {
    const on = fleet()
    const a = on.member('a')
    let noted: unknown
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, async ({ scheduledAt }) => {
      const record = await on.memory.read('sync', call)
      noted = {
        last: jobStateOf(record?.checkpoint ?? '')?.lastRunMs,
        runs: jobStateOf(record?.checkpoint ?? '')?.runs,
      }
      expect(noted).toMatchObject({ last: scheduledAt.getTime(), runs: [{ scheduledAt, by: 'a', term: 1 }] })
    })
    await on.clock.advance(61_000)
    expect(noted).toBeDefined()
    await on.close()
  })

  test('a scheduled time whose runner crashed is not run again, and another process runs the next time', async () => {
    const on = fleet()
    const [a, b] = [on.member('a'), on.member('b')]
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a', 10_000))
    await on.clock.advance(1_000)
    b.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('b', 1_000))
    await on.clock.advance(minute)
    a.crash()
    await on.clock.advance(2.5 * minute)
    expect(times(on)).toEqual(['00:01:00', '00:02:00', '00:03:00'])
    expect(on.ran.map(({ by }) => by)).toEqual(['a', 'b', 'b'])
    const [status] = await b.jobs.status()
    expect(status?.runs.map(({ result }) => result)).toEqual(['succeeded', 'succeeded', 'lost'])
    await on.close()
  })

  test('a run that lost its lease is aborted before another process can begin', async () => {
    const on = fleet()
    const [a, b] = [on.member('a'), on.member('b')]
    a.jobs.every({ seconds: 20 }, { name: 'sync' }, on.work('a', hour))
    await on.clock.advance(1_000)
    b.jobs.every({ seconds: 20 }, { name: 'sync' }, on.work('b', 1_000))
    await on.clock.advance(20_000)
    expect(on.ran).toHaveLength(1)
    const [first] = on.ran
    const ended: unknown[] = []
    a.link.fault = () => 'request-lost'
    await on.clock.advance(minute)
    expect(first?.endedMs).toBeUndefined()
    for (const event of a.events) if (event.type === 'ended') ended.push(event.run.result)
    expect(ended).toEqual(['lost'])
    expect(on.ran.slice(1).every(({ by }) => by === 'b')).toBe(true)
    expect(on.ran.length).toBeGreaterThan(2)
    await on.close()
  })

  test('a job never runs twice at once, and an event reports that the previous run is still running', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'slow' }, on.work('a', 150_000))
    await on.clock.advance(8 * minute)
    for (const [index, { atMs }] of on.ran.slice(1).entries()) {
      expect(atMs).toBeGreaterThanOrEqual(on.ran[index]?.endedMs ?? Infinity)
    }
    // When a run ends, every scheduled time that passed meanwhile is more than a minute late, except the newest one.
    expect(times(on)).toEqual(['00:01:00', '00:03:00', '00:06:00'])
    const told = a.events.filter(({ type }) => type === 'still-running')
    expect(told).toMatchObject([
      {
        job: 'slow',
        run: { scheduledAt: new Date('2030-01-01T00:01:00Z') },
        scheduledAt: new Date('2030-01-01T00:02:00Z'),
      },
      { scheduledAt: new Date('2030-01-01T00:04:00Z') },
      { scheduledAt: new Date('2030-01-01T00:07:00Z') },
    ])
    await on.close()
  })

  test('scheduled times that no process could run are skipped and reported as missed', async () => {
    const on = fleet()
    const a = on.member('a')
    const job = a.jobs.every('0 * * * *', { name: 'hourly' }, on.work('a'))
    await on.clock.advance(hour + minute)
    await Promise.all([job.stop(), on.clock.advance(minute)])
    await on.clock.advance(3 * hour)
    const b = on.member('b')
    b.jobs.every('0 * * * *', { name: 'hourly' }, on.work('b'))
    await on.clock.advance(hour)
    expect(times(on)).toEqual(['01:00:00', '05:00:00'])
    expect(b.events).toContainEqual({
      type: 'missed',
      job: 'hourly',
      identity: 'b',
      scheduledAt: new Date('2030-01-01T04:00:00Z'),
    })
    const [status] = await b.jobs.status()
    expect(status?.runs.map(({ result }) => result)).toEqual(['succeeded', 'missed', 'succeeded'])
    await on.close()
  })

  test('missed: run-once merges all missed times into one run', async () => {
    const on = fleet()
    const options = { name: 'hourly', missed: 'run-once' as const }
    const job = on.member('a').jobs.every('0 * * * *', options, on.work('a'))
    await on.clock.advance(hour + minute)
    await Promise.all([job.stop(), on.clock.advance(minute)])
    await on.clock.advance(3 * hour)
    on.member('b').jobs.every('0 * * * *', options, on.work('b'))
    await on.clock.advance(minute)
    expect(times(on)).toEqual(['01:00:00', '04:00:00'])
    await on.close()
  })

  test('a job that has never run begins with its next scheduled time', async () => {
    const on = fleet()
    await on.clock.advance(7 * minute)
    on.member('a').jobs.every({ minutes: 5 }, { name: 'sync', missed: 'run-once' }, on.work('a'))
    await on.clock.advance(2 * minute)
    expect(on.ran).toEqual([])
    await on.clock.advance(2 * minute)
    expect(times(on)).toEqual(['00:10:00'])
    await on.close()
  })

  test('a job continues after a failed run and records the error', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, async () => {
      throw new Error('The disk is full')
    })
    await on.clock.advance(2.5 * minute)
    const [status] = await a.jobs.status()
    expect(status).toMatchObject({
      name: 'sync',
      schedule: 'every minute',
      leader: 'a',
      nextRun: new Date('2030-01-01T00:03:00Z'),
      runs: [
        { scheduledAt: new Date('2030-01-01T00:02:00Z'), result: 'failed', error: 'The disk is full', by: 'a' },
        { scheduledAt: new Date('2030-01-01T00:01:00Z'), result: 'failed' },
      ],
    })
    await on.close()
  })

  test.each([
    ['its own leader', {}],
    ['a shared leader', { sharedLeader: 'all' }],
  ])('a job does not touch the record of another program and reports an error, with %s', async (_, more) => {
    const on = fleet()
    const elector = new Elector({ store: on.memory, election: 'sync', clock: on.clock })
    elector.start()
    const leadership = await elector.waitForLeadership()
    await Promise.all([leadership.setCheckpoint('my own notes'), on.clock.advance(10)])
    await Promise.all([elector.stop(), on.clock.advance(10)])
    const a = on.member('a', more)
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a'))
    await on.clock.advance(3.5 * minute)
    expect(on.ran).toEqual([])
    // The job reports one error per minute, and announces no run.
    expect(a.events.map(({ type }) => type)).toEqual(Array(4).fill('error'))
    expect(a.events[0]).toMatchObject({ error: { code: 'RECORD_INVALID' } })
    expect((await on.memory.read('sync', call))?.checkpoint).toBe('my own notes')
    await on.close()
  })

  test('the other processes run a job that one of them has stopped', async () => {
    const on = fleet()
    const job = on.member('a').jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a', 30_000))
    await on.clock.advance(61_000)
    on.member('b').jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('b'))
    await Promise.all([job.stop(), on.clock.advance(1_000)])
    await on.clock.advance(minute)
    expect(on.ran.map(({ by }) => by)).toEqual(['a', 'b'])
    await on.close()
  })

  test('a run that was asked to stop is recorded with its result', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'stops' }, on.work('a', hour))
    a.jobs.every({ minutes: 1 }, { name: 'ends' }, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    })
    await on.clock.advance(61_000)
    await Promise.all([a.jobs.close(), on.clock.advance(5_000)])
    const results = await Promise.all(
      ['stops', 'ends'].map(
        async (name) => jobStateOf((await on.memory.read(name, call))?.checkpoint ?? '')?.runs[0]?.result,
      ),
    )
    expect(results).toEqual(['stopped', 'succeeded'])
    expect(on.clock.timers).toBe(0)
  })
})

describe('wall clocks', () => {
  test('no scheduled time runs twice when wall clocks are hours apart', async () => {
    const on = fleet()
    const members = [0, 2 * hour, -3 * hour].map((aheadMs, index) => {
      const member = on.member(`m${index}`, { aheadMs })
      member.jobs.every('*/30 * * * *', { name: 'sync' }, on.work(member.name))
      return member
    })
    for (let step = 0; step < 24; step += 1) {
      await on.clock.advance(20 * minute)
      const member = members[step % 3]
      // The lease of this member expires, and another one leads.
      if (member) member.link.fault = () => 'error'
      await on.clock.advance(2 * minute)
      if (member) member.link.fault = () => undefined
    }
    const slots = times(on)
    expect(new Set(on.ran.map(({ scheduledAt }) => scheduledAt)).size).toBe(slots.length)
    expect(on.ran.map(({ scheduledAt }) => scheduledAt)).toEqual(
      on.ran.map(({ scheduledAt }) => scheduledAt).toSorted(),
    )
    expect(slots.length).toBeGreaterThan(3)
    await on.close()
  })

  test('a job runs the due scheduled time when the wall clock jumps ahead, and does not repeat one when the clock is set back', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'sync' }, on.work('a'))
    await on.clock.advance(61_000)
    a.time.aheadMs = 10 * minute
    await on.clock.advance(11_000)
    expect(times(on)).toEqual(['00:01:00', '00:11:00'])
    a.time.aheadMs = 0
    await on.clock.advance(9 * minute)
    expect(times(on)).toEqual(['00:01:00', '00:11:00'])
    await on.clock.advance(2 * minute)
    expect(times(on)).toEqual(['00:01:00', '00:11:00', '00:12:00'])
    await on.close()
  })

  test.each([
    ['spring, when 02:30 is skipped', '2030-03-30T12:00:00Z', ['2030-03-31T01:00:00.000Z', '2030-04-01T00:30:00.000Z']],
    [
      'autumn, when 02:30 comes twice',
      '2030-10-26T12:00:00Z',
      ['2030-10-27T00:30:00.000Z', '2030-10-28T01:30:00.000Z'],
    ],
  ])('a daily time runs once when daylight saving time changes: %s', async (_, from, expected) => {
    const on = fleet()
    on.clock.setWall(Date.parse(from))
    const { jobs } = on.member('a', { leaseDurationMs: 600_000 })
    jobs.every('30 2 * * *', { name: 'nightly', timezone: 'Europe/Zurich' }, on.work('a'))
    for (let hours = 0; hours < 48; hours += 1) await on.clock.advance(hour)
    expect(on.ran.map(({ scheduledAt }) => scheduledAt)).toEqual(expected)
    await on.close()
  })
})

describe('invalid options of jobs', () => {
  const jobs = fleet().member('a').jobs
  const work = () => undefined
  test.each([
    ['an invalid cron pattern', () => jobs.every('61 * * * *', { name: 'a' }, work), /minute: 61/],
    ['an interval of zero', () => jobs.every({ minutes: 0 }, { name: 'a' }, work), /at least 100/],
    ['an unknown time zone', () => jobs.every('@daily', { name: 'a', timezone: 'Mars' }, work), /time zone/],
    ['a time zone for an interval', () => jobs.every({ hours: 1 }, { name: 'a', timezone: 'UTC' }, work), /epoch/],
    ['an empty name', () => jobs.every('@daily', { name: '' }, work), /"name" is ""/],
    ['a missing name', () => jobs.every('@daily', {} as never, work), /"name" is undefined/],
    ['work that is not a function', () => jobs.every('@daily', { name: 'a' }, 'x' as never), /must be a function/],
    [
      'an unknown value of missed',
      () => jobs.every('@daily', { name: 'a', missed: 'all' as never }, work),
      /"skip", "run-once"/,
    ],
    ['a maxRuntimeMs of zero', () => jobs.every('@daily', { name: 'a', maxRuntimeMs: 0 }, work), /maxRuntimeMs/],
    ['a negative number of retries', () => jobs.every('@daily', { name: 'a', retries: -1 }, work), /retries/],
    [
      'a misspelled option',
      () => jobs.every('@daily', { name: 'a', timeZone: 'UTC' } as never, work),
      /Did you mean "timezone"/,
    ],
    ['a lease that is too short', () => createJobs({ store: fleet().memory, leaseDurationMs: 5 }), /leaseDurationMs/],
    [
      'a misspelled observer method',
      () => createJobs({ store: fleet().memory, observer: { onJobs() {} } as never }),
      /"onJob"/,
    ],
  ])('%s is rejected at once', (_, wrong, message) => {
    expect(wrong).toThrow(TypeError)
    expect(wrong).toThrow(message)
  })

  test('createJobs rejects a store without lasting terms', () => {
    const wrong = () => createJobs({ store: ttlStore(memoryTtlStorage()) })
    expect(wrong).toThrow(expect.objectContaining({ code: 'TERMS_REQUIRED' }))
  })

  test('a name that another job uses is rejected, and so is every job after close', async () => {
    const on = fleet()
    const { jobs: own } = on.member('a')
    own.every({ hours: 1 }, { name: 'a' }, work)
    expect(() => own.every({ hours: 2 }, { name: 'a' }, work)).toThrow(/another job/)
    await expect(own.tryRun('a', work)).rejects.toThrow(/another job/)
    await on.close()
    expect(() => own.every({ hours: 1 }, { name: 'b' }, work)).toThrow(expect.objectContaining({ code: 'STOPPED' }))
    await expect(own.once('c', work)).rejects.toMatchObject({ code: 'STOPPED' })
  })
})
