import { describe, expect, test } from 'vitest'
import type { Leadership, ManagerOptions } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { Manager, type Lease } from '../../src/api/manager.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore } from '../faulty-store.ts'
import { call, follow, never } from '../promise-outcome.ts'

/** Starts two pods. The first one leads, the second one waits. */
async function scene(more: Partial<ManagerOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const pod = (identity: string) => {
    const store = faultyStore(memory, clock)
    const manager = new Manager({ store, election: 'jobs', identity, clock, ...more })
    const errors: unknown[] = []
    manager.onError = (error) => void errors.push(error)
    return { store, manager, errors }
  }
  const first = pod('first')
  const second = pod('second')
  const stopping = new AbortController()
  const lease = first.manager.start({ signal: stopping.signal })
  await clock.advance(1_000)
  const standby = second.manager.start()
  await clock.advance(1_000)
  expect([lease.isLeader(), standby.isLeader()]).toEqual([true, false])
  return { clock, memory, first, second, lease, standby, stopping }
}

const pause = (clock: FakeClock, ms: number) => new Promise<void>((resolve) => void clock.setTimer(ms, () => resolve()))

/** The loop in document 000. */
async function loop(lease: Lease, clock: FakeClock, signal: AbortSignal, job: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await lease.run(job)
    await pause(clock, 2_000)
  }
}

describe('a loop of Lease.run', () => {
  test('nobody takes over before a job settles when its manager shuts down', async () => {
    const { clock, first, lease, standby, stopping } = await scene()
    let working = 0
    const job = async () => {
      working += 1
      await pause(clock, 10_000)
      working -= 1
    }
    const ended = follow(loop(lease, clock, stopping.signal, job))
    await clock.advance(5_000)
    expect(working).toBe(1)
    stopping.abort()
    const stop = follow(first.manager.stop())
    for (let ms = 0; ms < 4_900; ms += 100) {
      await clock.advance(100)
      expect([working, standby.isLeader(), stop.state]).toEqual([1, false, 'pending'])
    }
    await clock.advance(200)
    expect([working, standby.isLeader(), stop.state]).toEqual([0, true, 'resolved'])
    await clock.advance(2_000)
    expect(ended.state).toBe('resolved')
  })

  test('a loop of Lease.run continues after a loss and works again in the next term', async () => {
    const { clock, first, second, lease, standby, stopping } = await scene()
    const rounds: string[] = []
    const job = (identity: string) => async (leadership: Leadership) => {
      rounds.push(`${identity} ${leadership.term}`)
      await pause(clock, 1_000)
      leadership.throwIfLost()
    }
    const forever = async (of: Lease, work: (leadership: Leadership) => Promise<void>) => {
      while (!stopping.signal.aborted) if (!(await of.run(work))) await pause(clock, 500)
    }
    const loops = [follow(forever(lease, job('first'))), follow(forever(standby, job('second')))]
    cutOff(first.store)
    await clock.advance(30_000)
    expect(standby.isLeader()).toBe(true)
    Object.assign(first.store, { fault: () => undefined, silentWatch: false })
    cutOff(second.store)
    await clock.advance(30_000)
    stopping.abort()
    await clock.advance(20_000)
    expect([...new Set(rounds)]).toEqual(['first 1', 'second 2', 'first 3'])
    expect(loops).toMatchObject([{ state: 'resolved' }, { state: 'resolved' }])
  })

  test.each([
    ['that return at once', () => {}],
    ['that fail at once', () => Promise.reject(new Error('no such table'))],
  ])('rounds %s do not starve the leader or the standby', async (_, work) => {
    const { clock, lease, standby, stopping } = await scene()
    let [rounds, refused] = [0, 0]
    const forever = async (of: Lease, count: () => void) => {
      // The loop is bounded so that the test can end. Until then, it must not keep everything else from running.
      for (let left = 100_000; left > 0 && !stopping.signal.aborted; left--) {
        await of.run(work).catch(() => {})
        count()
      }
    }
    const loops = [follow(forever(lease, () => (rounds += 1))), follow(forever(standby, () => (refused += 1)))]
    await clock.advance(60_000)
    expect([lease.isLeader(), standby.isLeader()]).toEqual([true, false])
    expect(loops.map(({ state }) => state)).toEqual(['pending', 'pending'])
    expect(rounds).toBeGreaterThan(1)
    expect(refused).toBeGreaterThan(1)
    stopping.abort()
    await clock.advance(1_000)
    expect(loops.map(({ state }) => state)).toEqual(['resolved', 'resolved'])
  })
})

describe('one call of Lease.run', () => {
  test('Lease.run calls its work and returns true when it leads, and otherwise returns false', async () => {
    const { lease, standby } = await scene()
    const terms: number[] = []
    const work = ({ term }: Leadership) => void terms.push(term)
    expect(await standby.run(work)).toBe(false)
    expect(terms).toEqual([])
    expect(await lease.run(work)).toBe(true)
    expect(terms).toEqual([1])
  })

  test('Lease.run returns false before the first election and after stop', async () => {
    const clock = fakeClock()
    const manager = new Manager({ store: memoryStore({ clock }), election: 'jobs', clock })
    const lease = manager.start()
    const work = () => expect.unreachable('the work ran without leadership')
    expect(await lease.run(work)).toBe(false)
    await clock.advance(0)
    await manager.stop()
    expect(await lease.run(work)).toBe(false)
  })

  test('Lease.run returns false right after a stall longer than the lease, before any timer has fired', async () => {
    const { clock, lease } = await scene()
    clock.sleep(60_000)
    expect(await lease.run(() => expect.unreachable('the work ran after the lease had expired'))).toBe(false)
  })

  test('Lease.run rejects with the error thrown by its work, reports it nowhere else, and keeps the lease', async () => {
    const { clock, first, lease, standby } = await scene()
    const mistake = new Error('no such table')
    await expect(lease.run(() => Promise.reject(mistake))).rejects.toBe(mistake)
    await expect(
      lease.run(() => {
        throw mistake
      }),
    ).rejects.toBe(mistake)
    await clock.advance(60_000)
    expect([lease.isLeader(), standby.isLeader()]).toEqual([true, false])
    expect(first.errors, 'the caller already has the error').toEqual([])
    await first.manager.stop()
    await clock.advance(1_000)
    expect(standby.isLeader(), 'failed work has settled').toBe(true)
  })

  test('stop during work aborts its signal and renews the lease until the work settles', async () => {
    const { clock, memory, first, lease, standby } = await scene()
    let settle = (): void => undefined
    const reasons: unknown[] = []
    const round = follow(
      lease.run(async ({ signal }) => {
        signal.addEventListener('abort', () => reasons.push(signal.reason))
        await new Promise<void>((resolve) => (settle = resolve))
      }),
    )
    const stop = follow(first.manager.stop())
    expect(reasons).toMatchObject([{ code: 'LEADERSHIP_LOST', reason: 'stopped' }])
    expect(lease.isLeader()).toBe(false)
    await clock.advance(29_000)
    expect([round.state, stop.state, standby.isLeader()]).toEqual(['pending', 'pending', false])
    expect(await memory.read('jobs', call)).toMatchObject({ holder: 'first', released: false })
    settle()
    await clock.advance(100)
    expect(round).toMatchObject({ state: 'resolved', value: true })
    expect([stop.state, standby.isLeader()]).toEqual(['resolved', true])
  })

  test('Lease.run waits for work that stops its own manager', async () => {
    const { clock, first, lease, standby } = await scene()
    const round = follow(
      lease.run(async () => {
        void first.manager.stop()
        await pause(clock, 5_000)
      }),
    )
    await clock.advance(4_900)
    expect([round.state, standby.isLeader()]).toEqual(['pending', false])
    await clock.advance(200)
    expect([round.value, standby.isLeader()]).toEqual([true, true])
  })

  test('Lease.run returns false when work ends early because its signal aborted', async () => {
    const { clock, first, lease } = await scene()
    const byReason = follow(
      lease.run(async ({ signal }) => {
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }),
    )
    const byAbortError = follow(
      lease.run(async ({ signal }) => {
        await new Promise((_, reject) => {
          const abort = () =>
            reject(Object.assign(new Error('aborted', { cause: signal.reason }), { name: 'AbortError' }))
          signal.addEventListener('abort', abort)
        })
      }),
    )
    await first.manager.stop()
    await clock.advance(0)
    expect(byReason).toMatchObject({ state: 'resolved', value: false })
    expect(byAbortError).toMatchObject({ state: 'resolved', value: false })
    expect(first.errors).toEqual([])
  })

  test('Lease.run returns false when throwIfLost ends its work before any timer has fired', async () => {
    const { clock, lease } = await scene()
    const round = lease.run((leadership) => {
      clock.sleep(60_000)
      leadership.throwIfLost()
    })
    expect(await round).toBe(false)
  })

  test('a manager that loses its lease during work campaigns again only after the work has settled', async () => {
    const { clock, first, lease, standby } = await scene()
    let settle = (): void => undefined
    let lost = false
    const round = follow(
      lease.run(async ({ signal }) => {
        signal.addEventListener('abort', () => (lost = true))
        await new Promise<void>((resolve) => (settle = resolve))
      }),
    )
    cutOff(first.store)
    await clock.advance(10_000)
    expect([lost, standby.isLeader()]).toEqual([true, false])
    await clock.advance(10_000)
    expect(standby.isLeader(), 'the standby takes over').toBe(true)
    Object.assign(first.store, { fault: () => undefined, silentWatch: false })
    const calls = first.store.calls.length
    await clock.advance(60_000)
    expect(first.store.calls).toHaveLength(calls)
    expect(round.state).toBe('pending')
    settle()
    await clock.advance(1_000)
    expect(round).toMatchObject({ state: 'resolved', value: true })
    expect(first.store.calls.length).toBeGreaterThan(calls)
  })

  test('stop ends after drainTimeoutMs when work does not settle, and leaves the lease to expire', async () => {
    const { clock, memory, first, lease, standby } = await scene({ drainTimeoutMs: 8_000 })
    const round = follow(lease.run(() => never))
    const stop = follow(first.manager.stop())
    await clock.advance(7_900)
    expect(stop.state).toBe('pending')
    await clock.advance(200)
    expect([stop.state, round.state, standby.isLeader()]).toEqual(['resolved', 'pending', false])
    const record = await memory.read('jobs', call)
    expect(record).toMatchObject({ holder: 'first', released: false })
    await clock.advance((record?.renewedAt ?? 0) + 15_000 - clock.wallMs() - 100)
    expect(standby.isLeader()).toBe(false)
    await clock.advance(200)
    expect(standby.isLeader()).toBe(true)
  })

  test('the lease is kept until two concurrent rounds have both settled', async () => {
    const { clock, first, lease, standby } = await scene()
    const rounds = [2_000, 6_000].map((ms) => follow(lease.run(() => pause(clock, ms))))
    void first.manager.stop()
    await clock.advance(5_900)
    expect([rounds.map(({ state }) => state), standby.isLeader()]).toEqual([['resolved', 'pending'], false])
    await clock.advance(200)
    expect(standby.isLeader()).toBe(true)
  })

  test('a round that an observer starts at the moment of election belongs to the new term', async () => {
    const clock = fakeClock()
    const store = faultyStore(memoryStore({ clock }), clock)
    const terms: unknown[] = []
    const seen: { lease?: Lease; former?: Leadership } = {}
    const observer = {
      onEvent: (event: { type: string }) => {
        if (event.type !== 'new-leader' && event.type !== 'elected') return
        terms.push(`the former leads: ${seen.former?.isLeader()}`)
        void seen.lease?.run(({ term }) => void terms.push(term)).then((ran) => terms.push(`${event.type} ${ran}`))
      },
    }
    const manager = new Manager({ store, election: 'jobs', identity: 'me', clock, observer })
    seen.lease = manager.start()
    seen.former = await seen.lease.waitForLeadership()
    cutOff(store)
    await clock.advance(20_000)
    terms.length = 0
    Object.assign(store, { fault: () => undefined, silentWatch: false })
    await clock.advance(20_000)
    const over = 'the former leads: false'
    expect(terms).toEqual([over, over, 2, 'new-leader false', 'elected true'])
  })

  test('the lease is not released during a round that an observer started after it stopped the manager', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const seen: { lease?: Lease; round?: Promise<boolean> | undefined } = {}
    let working = false
    const observer = {
      onEvent: (event: { type: string }) => {
        if (event.type !== 'renewed' || seen.round) return
        void manager.stop()
        seen.round = seen.lease?.run(async () => {
          working = true
          await pause(clock, 5_000)
          working = false
        })
      },
    }
    const manager = new Manager({ store: memory, election: 'jobs', identity: 'me', clock, observer })
    seen.lease = manager.start()
    await clock.advance(5_000)
    expect(seen.round).toBeDefined()
    for (let ms = 0; ms < 6_000; ms += 500) {
      const record = await memory.read('jobs', call)
      expect({ working, released: record?.released }, `after ${ms} ms`).not.toEqual({ working: true, released: true })
      await clock.advance(500)
    }
    expect(await memory.read('jobs', call)).toMatchObject({ released: true })
  })

  test('a Manager supports the until option of an elector', async () => {
    const { clock, memory, first, standby } = await scene()
    const once = new Manager({ store: memory, election: 'jobs', identity: 'third', clock })
    const lease = once.start({ until: 'refused' })
    await clock.advance(1_000)
    await first.manager.stop()
    await clock.advance(60_000)
    expect([standby.isLeader(), lease.isLeader()]).toEqual([true, false])
    await expect(lease.waitForLeadership()).rejects.toMatchObject({ code: 'BUSY' })
  })

  test('Lease.run rejects work that is not a function', async () => {
    const { lease } = await scene()
    for (const wrong of [undefined, Promise.resolve(), 'job']) {
      await expect(lease.run(wrong as never)).rejects.toMatchObject({ name: 'TypeError', code: 'INVALID_OPTION' })
    }
  })
})
