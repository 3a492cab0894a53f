import { describe, expect, test } from 'vitest'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { call, follow, never } from '../promise-outcome.ts'
import { stallable } from '../stallable-clock.ts'
import { fleet, type Fleet } from './fleet.ts'

const minute = 60_000
const hour = 60 * minute
const newestRun = async (on: Fleet, name: string) =>
  jobStateOf((await on.memory.read(name, call))?.checkpoint ?? '')?.runs[0]

describe('limits of a run', () => {
  test('a run is aborted and reported after maxRuntimeMs, and the next one runs', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'slow', maxRuntimeMs: 5_000 }, on.work('a', hour))
    await on.clock.advance(2.2 * minute)
    expect(on.ran).toHaveLength(2)
    expect(a.events.filter(({ type }) => type === 'timed-out')).toHaveLength(2)
    const [status] = await a.jobs.status()
    expect(status?.runs).toMatchObject([
      { result: 'timed-out', durationMs: 5_000, error: expect.stringContaining('maxRuntimeMs (5000 ms)') },
      { result: 'timed-out' },
    ])
    await on.close()
  })

  test('no other run begins until an aborted run has settled', async () => {
    const on = fleet()
    const a = on.member('a')
    let running = 0
    let most = 0
    a.jobs.every({ minutes: 1 }, { name: 'deaf', maxRuntimeMs: 5_000 }, async () => {
      most = Math.max(most, (running += 1))
      await new Promise<void>((resolve) => on.clock.setTimer(100_000, resolve))
      running -= 1
    })
    await on.clock.advance(6 * minute)
    expect(most).toBe(1)
    await on.close()
  })

  test('a failed run is retried with a growing pause in the same term, and the number of tries is recorded', async () => {
    const on = fleet()
    const a = on.member('a')
    const tried: { atMs: number; tries: number; term: number }[] = []
    a.jobs.every({ minutes: 1 }, { name: 'flaky', retries: 3 }, async ({ tries, term }) => {
      tried.push({ atMs: on.clock.monotonicMs(), tries, term })
      if (tries < 3) throw new Error('not yet')
    })
    await on.clock.advance(80_000)
    expect(tried.map(({ tries }) => tries)).toEqual([1, 2, 3])
    const [one, two, three] = tried.map(({ atMs }) => atMs)
    expect((three ?? 0) - (two ?? 0)).toBeGreaterThan((two ?? 0) - (one ?? 0))
    expect(new Set(tried.map(({ term }) => term)).size).toBe(1)
    expect((await a.jobs.status())[0]?.runs).toMatchObject([{ result: 'succeeded', tries: 3 }])
    await on.close()
  })

  test('a run is not retried beyond the next scheduled time or beyond maxRuntimeMs', async () => {
    const on = fleet()
    const a = on.member('a')
    const fails = async () => {
      throw new Error('never')
    }
    a.jobs.every({ seconds: 10 }, { name: 'often', retries: 100, retryDelayMs: 3_000 }, fails)
    a.jobs.every({ minutes: 10 }, { name: 'short', retries: 100, maxRuntimeMs: 8_000 }, fails)
    await on.clock.advance(11 * minute)
    const status = await a.jobs.status()
    for (const run of status.find(({ name }) => name === 'often')?.runs ?? []) {
      expect(run.durationMs ?? 0).toBeLessThan(10_000)
    }
    const [run] = status.find(({ name }) => name === 'short')?.runs ?? []
    expect(run).toMatchObject({ result: 'timed-out', durationMs: 8_000 })
    await on.close()
  })

  test('a run is not retried in a process that stalled until its lease had expired', async () => {
    const on = fleet()
    const clock = stallable(on.clock)
    const a = on.member('a', { clock })
    const tried: number[] = []
    const fails = async ({ tries }: { readonly tries: number }) => {
      tried.push(tries)
      throw new Error('not yet')
    }
    a.jobs.every({ minutes: 1 }, { name: 'flaky', retries: 5, retryDelayMs: 2_000 }, fails)
    await on.clock.advance(minute + 100)
    expect(tried).toEqual([1])
    clock.stall()
    await on.clock.advance(20_000)
    clock.resume()
    await on.clock.advance(1_000)
    expect(tried).toEqual([1])
    const ended = a.events.flatMap((event) => (event.type === 'ended' ? event.run.result : []))
    expect(ended).toEqual(['lost'])
    await on.close()
  })
})

describe('a run that never ends and ignores its signal', () => {
  test.each([
    ['with its own leader', {}],
    ['with a shared leader', { sharedLeader: 'all' }],
  ])('a run that never ends does not keep its job from stopping or its process from exiting: %s', async (_, more) => {
    const on = fleet()
    const a = on.member('a', { drainTimeoutMs: 5_000, ...more })
    const job = a.jobs.every({ minutes: 1 }, { name: 'deaf', maxRuntimeMs: hour }, () => never)
    await on.clock.advance(minute + 100)
    const stopped = follow(job.stop())
    await on.clock.advance(4_000)
    expect(stopped.state).toBe('pending')
    await on.clock.advance(2_000)
    expect(stopped.state).toBe('resolved')
    const closed = follow(a.jobs.close())
    await on.clock.advance(10)
    expect(closed.state).toBe('resolved')
    // No timer waits for maxRuntimeMs, which would end an hour later.
    await on.clock.advance(minute)
    expect(on.clock.timers).toBe(0)
    // The lease was not released while the run continues.
    expect(await on.memory.read('deaf', call)).toMatchObject({ released: false })
  })
})

describe('a run that throws an odd value', () => {
  const hostile: [string, unknown][] = [
    ['an object without a prototype', Object.create(null)],
    ['an error whose message is a number', Object.assign(new Error('x'), { message: 7 })],
    ['an error whose message is an object', Object.assign(new Error('x'), { message: { code: 7 } })],
    [
      'an error whose message throws',
      Object.defineProperty(new Error('x'), 'message', {
        get() {
          throw new Error('never')
        },
      }),
    ],
    ['nothing', undefined],
    ['a symbol', Symbol('odd')],
    ['a very long text', 'x'.repeat(1_000_000)],
  ]
  test.each(hostile)('a run that throws is recorded as failed, whatever it throws: %s', async (_, thrown) => {
    const on = fleet()
    const a = on.member('a')
    const fails = async () => {
      throw thrown
    }
    a.jobs.every({ minutes: 1 }, { name: 'odd' }, fails)
    const tried = follow(a.jobs.tryRun('now', fails))
    await on.clock.advance(2.5 * minute)
    expect(tried).toMatchObject({ state: 'rejected' })
    expect(tried.error).toBe(thrown)
    for (const name of ['odd', 'now']) {
      const { result, error = '' } = (await newestRun(on, name)) ?? {}
      expect(result).toBe('failed')
      expect(error.length).toBeLessThanOrEqual(301)
    }
    expect(a.events.filter(({ type }) => type === 'ended')).toHaveLength(3)
    await on.close()
  })
})
