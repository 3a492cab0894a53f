import { describe, expect, test } from 'vitest'
import { TenureError } from '../../src/common/errors.ts'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { call, follow } from '../promise-outcome.ts'
import { fleet, type Fleet } from './fleet.ts'

const noteIn = async (on: Fleet, name: string) => jobStateOf((await on.memory.read(name, call))?.checkpoint ?? '')

describe('once', () => {
  test('once() runs in exactly one process, and the other callers wait for it', async () => {
    const on = fleet()
    const all = ['a', 'b', 'c'].map((name) => follow(on.member(name).jobs.once('migrate', on.work(name, 20_000))))
    await on.clock.advance(19_000)
    expect(all.map(({ state }) => state)).toEqual(['pending', 'pending', 'pending'])
    await on.clock.advance(2_000)
    expect(all.map(({ value }) => value).toSorted()).toEqual(['already-done', 'already-done', 'ran'])
    await on.clock.advance(3_600_000)
    const later = follow(on.member('d').jobs.once('migrate', on.work('d')))
    await on.clock.advance(10)
    expect(later.value).toBe('already-done')
    expect(on.ran).toHaveLength(1)
    expect(on.clock.timers).toBe(0)
  })

  test('once() costs later callers one read and no write', async () => {
    const on = fleet()
    const first = follow(on.member('a').jobs.once('migrate', on.work('a')))
    await on.clock.advance(100)
    expect(first.value).toBe('ran')
    const before = await on.memory.read('migrate', call)
    const others = Array.from({ length: 50 }, (_, index) => on.member(`m${index}`))
    const asked = others.map(({ jobs }) => follow(jobs.once('migrate', on.work('x'))))
    await on.clock.advance(100)
    expect(asked.every(({ value }) => value === 'already-done')).toBe(true)
    expect(others.flatMap(({ link }) => link.calls.map(({ verb }) => verb))).toEqual(Array(50).fill('read'))
    expect(await on.memory.read('migrate', call)).toEqual(before)
  })

  test('once() rejects when its work fails, and the next caller runs it again', async () => {
    const on = fleet()
    const failed = follow(
      on.member('a').jobs.once('migrate', async () => {
        throw new Error('no such table')
      }),
    )
    await on.clock.advance(100)
    expect(failed).toMatchObject({ state: 'rejected', error: new Error('no such table') })
    expect((await noteIn(on, 'migrate'))?.runs).toMatchObject([{ result: 'failed', error: 'no such table', by: 'a' }])
    const next = follow(on.member('b').jobs.once('migrate', on.work('b')))
    await on.clock.advance(100)
    expect(next.value).toBe('ran')
    expect((await noteIn(on, 'migrate'))?.doneMs).toBeDefined()
  })

  test('a waiting caller of once() runs the work when the previous runner fails', async () => {
    const on = fleet()
    const fails = follow(
      on.member('a').jobs.once('migrate', async (context) => {
        await on.work('a', 5_000)(context)
        throw new Error('no')
      }),
    )
    await on.clock.advance(100)
    const waits = follow(on.member('b').jobs.once('migrate', on.work('b')))
    await on.clock.advance(6_000)
    expect([fails.state, waits.value]).toEqual(['rejected', 'ran'])
    expect(on.ran.map(({ by }) => by)).toEqual(['a', 'b'])
    expect(on.ran[1]?.atMs ?? 0).toBeGreaterThanOrEqual(on.ran[0]?.endedMs ?? Infinity)
  })

  test('once() runs again after the lease expires when its process crashed during the run', async () => {
    const on = fleet()
    const a = on.member('a')
    follow(a.jobs.once('migrate', on.work('a', 3_600_000)))
    await on.clock.advance(1_000)
    const next = follow(on.member('b').jobs.once('migrate', on.work('b')))
    a.crash()
    await on.clock.advance(9_000)
    expect(next.state).toBe('pending')
    await on.clock.advance(10_000)
    expect(next.value).toBe('ran')
    expect((await noteIn(on, 'migrate'))?.runs.map(({ result }) => result)).toEqual(['succeeded', 'lost'])
  })

  test('once() counts as done when it succeeds while its process is stopping', async () => {
    const on = fleet()
    const a = on.member('a')
    const ran = follow(
      a.jobs.once('migrate', async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
        await new Promise<void>((resolve) => on.clock.setTimer(3_000, resolve))
      }),
    )
    await on.clock.advance(1_000)
    await Promise.all([a.jobs.close(), on.clock.advance(10_000)])
    expect(ran.value).toBe('ran')
    const next = follow(on.member('b').jobs.once('migrate', on.work('b')))
    await on.clock.advance(100)
    expect(next.value).toBe('already-done')
  })

  test('once() rejects with the reason of its signal', async () => {
    const on = fleet()
    follow(on.member('a').jobs.once('migrate', on.work('a', 60_000)))
    await on.clock.advance(100)
    const controller = new AbortController()
    const waits = follow(on.member('b').jobs.once('migrate', on.work('b'), { signal: controller.signal }))
    await on.clock.advance(100)
    controller.abort(new Error('enough'))
    await on.clock.advance(100)
    expect(waits).toMatchObject({ state: 'rejected', error: new Error('enough') })
    await on.close()
  })
})

describe('atMostOncePer', () => {
  test('atMostOncePer runs in one of many concurrent callers, and the others do not wait', async () => {
    const on = fleet()
    const all = ['a', 'b', 'c', 'd'].map((name) =>
      follow(on.member(name).jobs.atMostOncePer({ hours: 1 }, 'hourly', on.work(name, 30_000))),
    )
    await on.clock.advance(1_000)
    expect(all.map(({ value }) => value).toSorted()).toEqual(['skipped', 'skipped', 'skipped', undefined])
    await on.clock.advance(30_000)
    expect(all.map(({ value }) => value).toSorted()).toEqual(['ran', 'skipped', 'skipped', 'skipped'])
    expect(on.ran).toHaveLength(1)
    expect(on.clock.timers).toBe(0)
  })

  test('atMostOncePer runs again after the interval, even if the previous run failed', async () => {
    const on = fleet()
    const fails = async () => {
      throw new Error('no')
    }
    const { jobs } = on.member('a')
    const first = follow(jobs.atMostOncePer({ minutes: 1 }, 'often', fails))
    await on.clock.advance(100)
    expect(first).toMatchObject({ state: 'rejected', error: new Error('no') })
    const soon = follow(jobs.atMostOncePer({ minutes: 1 }, 'often', fails))
    await on.clock.advance(100)
    expect(soon.value).toBe('skipped')
    await on.clock.advance(60_000)
    const later = follow(jobs.atMostOncePer({ minutes: 1 }, 'often', on.work('a')))
    await on.clock.advance(100)
    expect(later.value).toBe('ran')
  })

  test('atMostOncePer skips its work when the recorded time of the last run is ahead of its own clock', async () => {
    const on = fleet()
    const ahead = follow(on.member('a', { aheadMs: 600_000 }).jobs.atMostOncePer({ minutes: 1 }, 'x', on.work('a')))
    await on.clock.advance(100)
    const behind = follow(on.member('b').jobs.atMostOncePer({ minutes: 1 }, 'x', on.work('b')))
    await on.clock.advance(100)
    expect([ahead.value, behind.value]).toEqual(['ran', 'skipped'])
  })

  test('atMostOncePer rejects when its lease is lost during the run, and the next call is skipped', async () => {
    const on = fleet()
    const a = on.member('a')
    const lost = follow(a.jobs.atMostOncePer({ hours: 1 }, 'hourly', on.work('a', 60_000)))
    await on.clock.advance(100)
    a.crash()
    await on.clock.advance(30_000)
    expect(lost).toMatchObject({ state: 'rejected', error: { code: 'LEADERSHIP_LOST' } })
    const next = follow(on.member('b').jobs.atMostOncePer({ hours: 1 }, 'hourly', on.work('b')))
    await on.clock.advance(100)
    expect(next.value).toBe('skipped')
  })
})

describe('tryRun', () => {
  test('tryRun runs at once, or returns busy while another process runs', async () => {
    const on = fleet()
    const first = follow(on.member('a').jobs.tryRun('import', on.work('a', 10_000)))
    await on.clock.advance(100)
    const second = follow(on.member('b').jobs.tryRun('import', on.work('b')))
    await on.clock.advance(100)
    expect([first.state, second.value]).toEqual(['pending', 'busy'])
    await on.clock.advance(11_000)
    expect(first.value).toBe('ran')
    const third = follow(on.member('b').jobs.tryRun('import', on.work('b')))
    await on.clock.advance(100)
    expect(third.value).toBe('ran')
    expect((await noteIn(on, 'import'))?.runs.map(({ by }) => by)).toEqual(['b', 'a'])
    expect(on.clock.timers).toBe(0)
  })

  test('tryRun rejects with the error thrown by its work, even if that error is BUSY', async () => {
    const on = fleet()
    const failed = follow(
      on.member('a').jobs.tryRun('import', async () => {
        throw new TenureError('BUSY', 'The queue is busy.')
      }),
    )
    await on.clock.advance(100)
    expect(failed).toMatchObject({ state: 'rejected', error: { message: 'The queue is busy.' } })
  })

  test('tryRun aborts its work and rejects after maxRuntimeMs', async () => {
    const on = fleet()
    const slow = follow(on.member('a').jobs.tryRun('import', on.work('a', 60_000), { maxRuntimeMs: 2_000 }))
    await on.clock.advance(3_000)
    expect(slow).toMatchObject({ state: 'rejected', error: { code: 'MAX_RUNTIME' } })
  })
})

describe('jobs that run on demand', () => {
  test('close settles while the store does not answer', async () => {
    const on = fleet()
    const a = on.member('a')
    a.crash()
    const asked = follow(a.jobs.once('migrate', on.work('a')))
    await on.clock.advance(100)
    await Promise.all([a.jobs.close(), on.clock.advance(10)])
    expect(asked).toMatchObject({ state: 'rejected', error: { code: 'STOPPED' } })
    expect(on.clock.timers).toBe(0)
  })

  test('status remembers the last thousand names, so that new names do not fill the memory', async () => {
    const on = fleet()
    const { jobs } = on.member('a')
    const calls = Array.from({ length: 1_005 }, (_, index) => jobs.tryRun(`import-${index}`, () => undefined))
    await Promise.all([...calls, on.clock.advance(100)])
    const names = (await jobs.status()).map(({ name }) => name)
    expect(names).toHaveLength(1_000)
    expect(names).toContain('import-1004')
    expect(names).not.toContain('import-4')
  })
})

describe('the status of a job', () => {
  test('status returns the recorded state of every named job', async () => {
    const on = fleet()
    const { jobs } = on.member('a')
    jobs.every('0 3 * * *', { name: 'nightly', timezone: 'Europe/Zurich' }, on.work('a'))
    expect(await jobs.status()).toEqual([
      {
        name: 'nightly',
        schedule: '0 3 * * *',
        timezone: 'Europe/Zurich',
        nextRun: new Date('2030-01-01T02:00:00Z'),
        runs: [],
      },
    ])
    const ran = follow(jobs.tryRun('import', on.work('a', 1_500)))
    await on.clock.advance(1_000)
    const [importing, nightly] = await jobs.status()
    expect(importing).toMatchObject({ name: 'import', leader: 'a', term: 1, running: { by: 'a', term: 1 } })
    expect(nightly).toMatchObject({ name: 'nightly', leader: 'a', schedule: '0 3 * * *', runs: [] })
    // The job has recorded where its schedule begins. That is not a run.
    expect(nightly).not.toHaveProperty('lastRun')
    await on.clock.advance(2_000)
    expect(ran.value).toBe('ran')
    const [done] = await jobs.status()
    expect(done).toEqual({
      name: 'import',
      term: 1,
      runs: [
        {
          scheduledAt: new Date('2030-01-01T00:00:00.000Z'),
          begunAt: new Date('2030-01-01T00:00:00.000Z'),
          endedAt: new Date('2030-01-01T00:00:01.500Z'),
          durationMs: 1_500,
          by: 'a',
          term: 1,
          result: 'succeeded',
        },
      ],
    })
    await on.close()
  })

  test('an observer gets the events of a job in order', async () => {
    const on = fleet()
    const a = on.member('a')
    a.jobs.every({ minutes: 1 }, { name: 'sync', retries: 1 }, async ({ tries }) => {
      if (tries === 1) throw new Error('not yet')
    })
    await on.clock.advance(90_000)
    expect(a.events.map(({ type }) => type)).toEqual(['scheduled', 'begun', 'retrying', 'ended', 'scheduled'])
    expect(a.events[3]).toMatchObject({ job: 'sync', identity: 'a', run: { result: 'succeeded', tries: 2 } })
    await on.close()
  })
})
