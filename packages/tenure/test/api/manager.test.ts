import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { fileStore } from '../../src/stores/file/index.ts'
import type { LeaseStore, ManagerOptions } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { Manager } from '../../src/api/manager.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore, refusedConnection, withoutWatch } from '../faulty-store.ts'
import { call, claim, follow } from '../promise-outcome.ts'

function pod(clock: FakeClock, memory: LeaseStore, more: Partial<ManagerOptions> = {}) {
  const store = faultyStore(memory, clock)
  const manager = new Manager({ store, election: 'e', identity: 'me', clock, ...more })
  const errors: unknown[] = []
  manager.onError = (error) => void errors.push(error)
  return { store, manager, errors }
}

function scene(more: Partial<ManagerOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  return { clock, memory, ...pod(clock, memory, more) }
}

describe('Document 000: Manager Config', () => {
  test('defaults: LeaseDuration=15s, RenewInterval=5s, RetryInterval=2s', async () => {
    const { clock, memory, store, manager } = scene()
    manager.start()
    await clock.advance(12_000)
    expect((await memory.read('e', call))?.leaseDurationMs).toBe(15_000)
    store.fault = () => 'error'
    await clock.advance(6_000)
    const renewals = store.calls.filter(({ verb }) => verb === 'renew').map(({ atMs }) => atMs)
    expect(renewals, 'every 5 s, after a failure 2 s later').toEqual([5_000, 10_000, 15_000, 17_000])
  })

  test('configured timings replace the defaults', async () => {
    const { clock, memory, store, manager } = scene({
      leaseDurationMs: 60_000,
      renewIntervalMs: 10_000,
      retryIntervalMs: 3_000,
    })
    manager.start()
    await clock.advance(9_999)
    store.fault = () => 'error'
    await clock.advance(5_000)
    expect((await memory.read('e', call))?.leaseDurationMs).toBe(60_000)
    const renewals = store.calls.filter(({ verb }) => verb === 'renew').map(({ atMs }) => atMs)
    expect(renewals).toEqual([10_000, 13_000])
  })

  test('the record shows the configured identity', async () => {
    const { clock, memory, manager } = scene({ identity: 'pod-7' })
    manager.start()
    await clock.advance(0)
    expect((await memory.read('e', call))?.holder).toBe('pod-7')
  })

  test('every manager gets its own identity when none is set, as when POD_NAME is missing', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const holders = new Set<string | undefined>()
    for (let number = 0; number < 3; number++) {
      const { manager } = pod(clock, memory, { identity: undefined })
      manager.start()
      await clock.advance(100)
      holders.add((await memory.read('e', call))?.holder)
      await manager.stop()
    }
    expect(holders.size).toBe(3)
  })
})

describe('Document 000: Manager', () => {
  test('Start begins the leader election process and returns immediately with a Lease', async () => {
    const { clock, store, manager } = scene()
    cutOff(store)
    const lease = manager.start()
    expect(lease.isLeader()).toBe(false)
    store.fault = () => undefined
    await clock.advance(20_000)
    expect(lease.isLeader()).toBe(true)
  })

  test('a second Start throws ALREADY_STARTED', () => {
    const { manager } = scene()
    manager.start()
    expect(() => manager.start()).toThrow(expect.objectContaining({ code: 'ALREADY_STARTED' }))
  })

  test('Stop gracefully stops leader election and releases leadership if held', async () => {
    const { clock, memory, manager } = scene()
    const lease = manager.start()
    await clock.advance(1_000)
    await manager.stop()
    expect(lease.isLeader()).toBe(false)
    expect(await memory.read('e', call)).toMatchObject({ holder: 'me', released: true })
    expect(clock.timers).toBe(0)
    await manager.stop()
  })

  test('Stop without leadership releases nothing', async () => {
    const { clock, memory, store, manager } = scene()
    await memory.acquire(claim(), call)
    manager.start()
    await clock.advance(1_000)
    await manager.stop()
    expect(store.calls.map(({ verb }) => verb)).not.toContain('release')
    expect(await memory.read('e', call)).toMatchObject({ holder: 'other', released: false })
    expect(clock.timers).toBe(0)
  })

  test('Stop before Start resolves without a call', async () => {
    const { manager, store } = scene()
    await manager.stop()
    expect(store.calls).toEqual([])
  })

  test('Stop rejects with RELEASE_FAILED in bounded time when the release fails', async () => {
    const { clock, store, manager, errors } = scene()
    manager.start()
    await clock.advance(0)
    store.fault = () => 'error'
    const stop = follow(manager.stop())
    await clock.advance(5_000)
    expect(stop).toMatchObject({ state: 'rejected', error: { code: 'RELEASE_FAILED', cause: refusedConnection } })
    expect(errors).toEqual([refusedConnection])
    await expect(manager.stop()).rejects.toMatchObject({ code: 'RELEASE_FAILED' })
    expect(clock.timers).toBe(0)
  })
})

describe('Document 000: Lease', () => {
  test('IsLeader returns true if this instance is currently the leader', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const leases = ['a', 'b', 'c'].map((identity) => pod(clock, memory, { identity }).manager.start())
    await clock.advance(60_000)
    expect(leases.map((lease) => lease.isLeader())).toEqual([true, false, false])
  })

  test('WaitForLeadership blocks until this instance becomes leader', async () => {
    const { clock, memory, manager } = scene()
    await memory.acquire(claim(), call)
    const lease = manager.start()
    const waits = [follow(lease.waitForLeadership()), follow(lease.waitForLeadership())]
    await clock.advance(14_999)
    expect(waits.map(({ state }) => state)).toEqual(['pending', 'pending'])
    await clock.advance(1 + 75)
    expect(waits.map(({ state }) => state)).toEqual(['resolved', 'resolved'])
    expect(waits[0]?.value?.term).toBe(2)
    expect((await lease.waitForLeadership()).term, 'at once while leading').toBe(2)
  })

  test('WaitForLeadership blocks until context cancels: it rejects with the reason of the signal', async () => {
    const { clock, memory, manager } = scene()
    await memory.acquire(claim(), call)
    const lease = manager.start()
    const controller = new AbortController()
    const wait = follow(lease.waitForLeadership({ signal: controller.signal }))
    await clock.advance(1_000)
    controller.abort(new Error('enough'))
    await clock.advance(0)
    expect(wait).toMatchObject({ state: 'rejected', error: { message: 'enough' } })
    await expect(lease.waitForLeadership({ signal: AbortSignal.abort(new Error('early')) })).rejects.toThrow('early')
    await clock.advance(20_000)
    expect(lease.isLeader(), 'the campaign itself continues').toBe(true)
  })

  test('WaitForLeadership rejects when the manager stops', async () => {
    const { clock, memory, manager } = scene()
    await memory.acquire(claim(), call)
    const wait = follow(manager.start().waitForLeadership())
    await clock.advance(1_000)
    await manager.stop()
    await clock.advance(0)
    expect(wait).toMatchObject({ state: 'rejected', error: { code: 'STOPPED' } })
  })
})

describe('Document 000: Manager.run() Internal Loop', () => {
  test('If leader: call Renew, use RenewInterval', async () => {
    const { clock, store, manager } = scene()
    manager.start()
    await clock.advance(30_000)
    expect(store.calls.slice(1)).toEqual([5, 10, 15, 20, 25, 30].map((s) => ({ verb: 'renew', atMs: s * 1_000 })))
  })

  test('Single Renew failure: keep leadership, retry Renew on next tick', async () => {
    const { clock, store, manager, errors } = scene()
    const lease = manager.start()
    const { term, signal } = await lease.waitForLeadership()
    store.fault = () => (store.calls.at(-1)?.atMs === 5_000 ? 'error' : undefined)
    for (let ms = 0; ms < 60_000; ms += 500) {
      await clock.advance(500)
      expect(lease.isLeader()).toBe(true)
    }
    expect(store.calls[2]).toEqual({ verb: 'renew', atMs: 7_000 })
    expect(errors).toEqual([refusedConnection])
    expect(signal.aborted).toBe(false)
    expect((await lease.waitForLeadership()).term).toBe(term)
  })

  test('two Renew failures in a row keep leadership, and a success resets the count', async () => {
    const { clock, store, manager, errors } = scene()
    const lease = manager.start()
    await clock.advance(0)
    let failures = 0
    store.fault = () => (++failures % 3 === 0 ? undefined : 'error')
    await clock.advance(120_000)
    expect(errors.length).toBeGreaterThan(20)
    expect((await lease.waitForLeadership()).term).toBe(1)
  })

  test('Consecutive Renew failures (e.g., 2-3): demote to non-leader', async () => {
    for (const [maxFailedRenewals, demotedAtMs] of [
      [undefined, 9_000],
      [3, 9_000],
      [2, 7_000],
    ] as const) {
      const { clock, store, manager } = scene({ maxFailedRenewals })
      const lease = manager.start()
      const { signal } = await lease.waitForLeadership()
      store.fault = () => 'error'
      await clock.advance(demotedAtMs - 1)
      expect(lease.isLeader()).toBe(true)
      await clock.advance(1)
      expect(lease.isLeader()).toBe(false)
      expect(signal.reason).toMatchObject({ reason: 'expired' })
    }
  })

  test('If non-leader: try to acquire, use RetryInterval', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const store = withoutWatch(faultyStore(memory, clock))
    const { manager } = pod(clock, memory, { store })
    // This holder renews for the whole test.
    const holder = pod(clock, memory, { identity: 'holder' })
    holder.manager.start()
    await clock.advance(100)
    manager.start()
    await clock.advance(300_000)
    const times = store.calls.map(({ atMs }) => atMs)
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0))
    expect(Math.min(...gaps), 'the interval of 2 s is jittered by half').toBeGreaterThanOrEqual(1_000)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(3_000)
    expect(gaps.length).toBeGreaterThan(120)
  })

  test('If non-leader and the store can watch: try at the moment the lease ends', async () => {
    const { clock, memory, store, manager } = scene()
    await memory.acquire(claim(), call)
    const lease = manager.start()
    await clock.advance(14_999)
    expect(store.calls).toHaveLength(1)
    await clock.advance(1 + 75)
    expect(lease.isLeader()).toBe(true)
  })

  test('Gained leadership: signals waiters', async () => {
    const { clock, manager } = scene()
    const wait = follow(manager.start().waitForLeadership())
    await clock.advance(0)
    expect(wait).toMatchObject({ state: 'resolved', value: { term: 1 } })
  })

  test('Lost leadership: IsLeader() returns false, and a new wait waits for the next leadership', async () => {
    const { clock, store, manager } = scene()
    const lease = manager.start()
    await clock.advance(0)
    cutOff(store)
    await clock.advance(10_000)
    expect(lease.isLeader()).toBe(false)
    const wait = follow(lease.waitForLeadership())
    await clock.advance(60_000)
    expect(wait.state).toBe('pending')
    Object.assign(store, { fault: () => undefined, silentWatch: false })
    await clock.advance(20_000)
    expect(wait).toMatchObject({ state: 'resolved', value: { term: 2 } })
  })

  test('On context cancellation: Release if currently leader, and return gracefully', async () => {
    const { clock, memory, manager, errors } = scene()
    const controller = new AbortController()
    const lease = manager.start({ signal: controller.signal })
    await clock.advance(1_000)
    controller.abort()
    expect(lease.isLeader()).toBe(false)
    await clock.advance(0)
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(errors).toEqual([])
    expect(clock.timers).toBe(0)
    await manager.stop()
  })

  test('On context cancellation: Release is not called if not leader', async () => {
    const { clock, memory, store, manager } = scene()
    await memory.acquire(claim(), call)
    const controller = new AbortController()
    manager.start({ signal: controller.signal })
    await clock.advance(1_000)
    controller.abort()
    await clock.advance(0)
    expect(store.calls.map(({ verb }) => verb)).not.toContain('release')
    expect(clock.timers).toBe(0)
  })
})

describe('Document 000: Error Handling', () => {
  test('All backend errors bubble up through Manager', async () => {
    for (const fault of ['acquire', 'renew', 'release'] as const) {
      const { clock, store, manager, errors } = scene()
      store.fault = (verb) => (verb === fault ? 'error' : undefined)
      manager.start()
      await clock.advance(6_000)
      const stop = follow(manager.stop())
      await clock.advance(10_000)
      expect(errors, fault).toContain(refusedConnection)
      expect(stop.state, fault).toBe(fault === 'release' ? 'rejected' : 'resolved')
    }
  })

  test('Leadership loss (Renew failure) triggers automatic retry', async () => {
    const { clock, store, manager } = scene()
    const lease = manager.start()
    const first = await lease.waitForLeadership()
    store.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
    await clock.advance(9_000)
    expect(first.signal.aborted).toBe(true)
    expect(first.isLeader()).toBe(false)
    const second = await lease.waitForLeadership()
    expect(second.term, 'an old term is never used again').toBe(2)
    expect(second.isLeader()).toBe(true)
  })

  test("Network/API errors don't panic, logged and retried", async () => {
    const { clock, store, manager, errors } = scene()
    store.fault = () => 'error'
    const lease = manager.start()
    await clock.advance(600_000)
    expect(errors.length).toBeGreaterThan(100)
    store.fault = () => undefined
    await clock.advance(3_000)
    expect(lease.isLeader()).toBe(true)
  })

  test('Context cancellation cleans up gracefully for every store fault', async () => {
    for (const fault of [undefined, 'error', 'request-lost', 'reply-lost'] as const) {
      for (const ms of [0, 1_000, 5_000, 9_500, 30_000]) {
        const { clock, store, manager } = scene()
        const controller = new AbortController()
        manager.start({ signal: controller.signal })
        await clock.advance(ms / 2)
        store.fault = () => fault
        await clock.advance(ms / 2)
        controller.abort()
        await clock.advance(30_000)
        expect(clock.timers, `${fault} for ${ms} ms`).toBe(0)
        expect(store.open, `${fault} for ${ms} ms`).toBe(0)
      }
    }
  })

  test('an onError that throws or rejects is reported, and the manager continues', async () => {
    const reported: unknown[] = []
    const observer = { onEvent: (event: { type: string }) => void ('error' in event && reported.push(event.error)) }
    const { clock, store, manager } = scene({ observer })
    const fail = async (onError: () => unknown) => {
      manager.onError = () => onError() as void
      store.fault = () => 'error'
      await clock.advance(6_000)
      store.fault = () => undefined
      await clock.advance(20_000)
    }
    manager.start()
    await fail(() => {
      throw new Error('logger')
    })
    await fail(() => Promise.reject(new Error('async logger')))
    const causes = reported.flatMap((error) => (error instanceof Error && error.cause ? [error.cause] : []))
    expect(causes).toContainEqual(new Error('logger'))
    expect(causes).toContainEqual(new Error('async logger'))
    await manager.stop()
    expect(clock.timers).toBe(0)
  })

  test('an observer that throws does not keep errors from onError', async () => {
    const observer = {
      onEvent: () => {
        throw new Error('observer')
      },
    }
    const { clock, store, manager, errors } = scene({ observer })
    store.fault = () => 'error'
    manager.start()
    await clock.advance(0)
    expect(errors).toEqual([refusedConnection])
  })
})

describe('Document 000: Thread Safety', () => {
  test('the manager makes all backend calls, one at a time', async () => {
    const { clock, store, manager } = scene()
    manager.start()
    let call = 0
    store.fault = () => (['reply-lost', undefined, 'error', 'request-lost', undefined] as const)[++call % 5]
    await clock.advance(300_000)
    expect(store.calls.length).toBeGreaterThan(50)
    expect(store.mostOpen).toBe(1)
  })

  test('Lease.IsLeader() is non-blocking and makes no store call, even in a tight loop', async () => {
    const { clock, store, manager } = scene()
    const lease = manager.start()
    await clock.advance(0)
    const { length } = store.calls
    let leading = 0
    for (let asked = 0; asked < 100_000; asked++) leading += lease.isLeader() ? 1 : 0
    expect(leading).toBe(100_000)
    expect(store.calls).toHaveLength(length)
  })
})

const directories: string[] = []
const newDirectory = () => directories.at(directories.push(mkdtempSync(join(tmpdir(), 'tenure-manager-'))) - 1) ?? ''
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true })
})

describe.each<[string, (clock: FakeClock) => LeaseStore]>([
  ['memory', (clock) => memoryStore({ clock })],
  ['file', (clock) => fileStore({ directory: newDirectory(), clock })],
])('Document 000: Unit tests for each backend: %s', (_, makeStore) => {
  const mine = claim({ holder: 'mine', attempt: 'mine.1' })
  const theirs = claim({ holder: 'theirs', attempt: 'theirs.1', afterTerm: 1 })

  async function held() {
    const clock = fakeClock()
    const store = makeStore(clock)
    onTestFinished(async () => store.close?.())
    const grant = await store.acquire(mine, call)
    if (!grant.ok) throw new Error('not granted')
    return { clock, store, grant, heldClaim: { ...mine, term: grant.record.term, version: grant.record.version } }
  }

  test('Single instance acquires leadership', async () => {
    const { grant } = await held()
    expect(grant.record).toMatchObject({ holder: 'mine', term: 1, leaseDurationMs: 15_000, released: false })
  })

  test('Second instance blocked while first holds lease', async () => {
    const { clock, store } = await held()
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: false, record: { holder: 'mine' }, highestTerm: 1 })
    await clock.advance(14_999)
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: false })
  })

  test('Lease expiry allows takeover', async () => {
    const { clock, store, heldClaim } = await held()
    await clock.advance(15_000)
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: true, record: { holder: 'theirs', term: 2 } })
    expect(await store.renew(heldClaim, call), 'the renewal of the former holder fails').toMatchObject({ ok: false })
  })

  test('Renewal extends lease', async () => {
    const { clock, store, heldClaim } = await held()
    await clock.advance(10_000)
    expect(await store.renew(heldClaim, call)).toMatchObject({ ok: true, record: { holder: 'mine', term: 1 } })
    await clock.advance(14_999)
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: false })
    await clock.advance(1)
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: true })
  })

  test('Release allows immediate takeover', async () => {
    const { store, heldClaim } = await held()
    expect(await store.release(heldClaim, call)).toMatchObject({ ok: true, record: { released: true } })
    expect(await store.acquire(theirs, call)).toMatchObject({ ok: true, record: { holder: 'theirs', term: 2 } })
  })
})

describe('Document 000: Integration test with multiple goroutines simulating pods', () => {
  test('at most one pod leads and terms rise on the memory store, through partitions, stops, and restarts', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const make = (identity: string) => {
      const made = pod(clock, memory, { identity })
      return { ...made, lease: made.manager.start() }
    }
    const pods = Array.from({ length: 5 }, (_, number) => make(`pod-${number}`))
    const terms: number[] = []
    for (let round = 0; round < 40; round++) {
      for (let ms = 0; ms < 20_000; ms += 200) {
        await clock.advance(200)
        expect(pods.filter(({ lease }) => lease.isLeader()).length).toBeLessThanOrEqual(1)
      }
      const leader = pods.findIndex(({ lease }) => lease.isLeader())
      expect(leader, 'a pod leads after each fault').toBeGreaterThanOrEqual(0)
      terms.push((await pods[leader]?.lease.waitForLeadership())?.term ?? 0)
      for (const { store } of pods) Object.assign(store, { fault: () => undefined, silentWatch: false })
      if (round % 2 === 0 && pods[leader]) cutOff(pods[leader].store)
      else {
        await pods[leader]?.manager.stop()
        pods[leader] = make(`pod-${leader}`)
      }
    }
    expect(terms).toEqual([...new Set(terms)].toSorted((one, other) => one - other))
    expect(terms.length).toBe(40)
  })

  test('pods on the file store lead one after another in real time', async () => {
    const directory = newDirectory()
    const pods = Array.from({ length: 4 }, (_, number) => {
      const store = fileStore({ directory })
      const manager = new Manager({ store, election: 'e', identity: `pod-${number}`, leaseDurationMs: 2_000 })
      return { store, manager, lease: manager.start() }
    })
    onTestFinished(async () => {
      for (const { manager, store } of pods) await manager.stop().then(() => store.close?.())
    })
    const led: number[] = []
    const waiting = [...pods]
    while (waiting.length > 0) {
      const leader = await vi.waitUntil(() => waiting.find(({ lease }) => lease.isLeader()), {
        timeout: 5_000,
        interval: 5,
      })
      expect(pods.filter(({ lease }) => lease.isLeader())).toEqual([leader])
      led.push((await leader.lease.waitForLeadership()).term)
      await leader.manager.stop()
      waiting.splice(waiting.indexOf(leader), 1)
    }
    expect(led).toEqual([1, 2, 3, 4])
  })
})
