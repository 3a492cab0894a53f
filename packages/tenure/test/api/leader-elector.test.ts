import { describe, expect, test } from 'vitest'
import type { ElectionEvent } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore } from '../faulty-store.ts'
import { call, claim, never } from '../promise-outcome.ts'
import { stallable } from '../stallable-clock.ts'
import { election, fleet, lone, start, untilAborted, type More, type Replica } from './replicas.ts'

describe('Document 003: Requirement: Lease-Based Leader Election', () => {
  test('Scenario: Single replica becomes leader', async () => {
    const { clock, memory, elector } = lone()
    await clock.advance(0)
    expect(elector.isLeader()).toBe(true)
    expect(await memory.read(election, call)).toMatchObject({ holder: 'pod-0', term: 1, released: false })
  })

  test('Scenario: Only one leader among multiple replicas', async () => {
    const { clock, replicas, leaders } = fleet(5)
    let changes = 0
    for (let round = 0; round < 20; round++) {
      // Cut off each leader in turn, so that every replica is tested against its successor.
      const [before] = leaders()
      if (round > 0 && before) cutOff(before.store)
      for (let ms = 0; ms < 20_000; ms += 250) {
        await clock.advance(250)
        expect(leaders().length).toBeLessThanOrEqual(1)
      }
      expect(leaders()).toHaveLength(1)
      if (before && leaders()[0] !== before) changes += 1
      for (const { store } of replicas) Object.assign(store, { fault: () => undefined, silentWatch: false })
    }
    expect(changes).toBe(19)
  })

  test('the elected leader renews the lease periodically', async () => {
    const { clock, store } = lone()
    await clock.advance(60_000)
    const renewals = store.calls.filter(({ verb }) => verb === 'renew').map(({ atMs }) => atMs)
    expect(renewals).toEqual(Array.from({ length: 30 }, (_, number) => (number + 1) * 2_000))
  })
})

describe('Document 003: Requirement: Configurable Timing Parameters', () => {
  /**
   * Measures the effective timings: the lease duration in the record, the time until a leader gives up, and the times
   * of its renewals.
   */
  async function measure(more: More) {
    const { clock, memory, elector, store } = lone(more)
    await clock.advance(0)
    const leaseDurationMs = (await memory.read(election, call))?.leaseDurationMs ?? 0
    store.fault = () => 'error'
    let deadlineMs = 0
    for (; elector.isLeader(); deadlineMs += 1_000) await clock.advance(1_000)
    const failures = store.calls.filter(({ verb }) => verb === 'renew').map(({ atMs }) => atMs)
    return { leaseDurationMs, deadlineMs, failures }
  }

  test('Scenario: Default timing parameters applied', async () => {
    const { leaseDurationMs, deadlineMs, failures } = await measure({})
    expect(leaseDurationMs).toBe(15_000)
    expect(deadlineMs, 'the deadline counts from the first failed renewal').toBe(2_000 + 10_000)
    expect(failures, 'one try per retry period').toEqual([2_000, 4_000, 6_000, 8_000, 10_000])
  })

  test('Scenario: Custom timing parameters override defaults', async () => {
    const custom = { leaseDurationMs: 60_000, renewDeadlineMs: 40_000, retryPeriodMs: 5_000 }
    const { leaseDurationMs, deadlineMs, failures } = await measure(custom)
    expect(leaseDurationMs).toBe(60_000)
    expect(deadlineMs).toBe(5_000 + 40_000)
    expect(failures).toEqual([5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000])
  })

  test('one custom timing leaves the other defaults unchanged', async () => {
    const { leaseDurationMs, deadlineMs, failures } = await measure({ leaseDurationMs: 30_000 })
    expect(leaseDurationMs).toBe(30_000)
    expect(deadlineMs).toBe(2_000 + 10_000)
    expect(failures).toEqual([2_000, 4_000, 6_000, 8_000, 10_000])
  })

  test('renewIntervalMs makes a leader renew less often', async () => {
    const { deadlineMs, failures } = await measure({ renewIntervalMs: 3_000 })
    expect(deadlineMs, 'the deadline counts from the first failed renewal').toBe(3_000 + 10_000)
    expect(failures).toEqual([3_000, 5_000, 7_000, 9_000, 11_000])
  })

  test('a leader gives up early enough for work to wind down, whatever its deadline is', async () => {
    const { deadlineMs } = await measure({ renewIntervalMs: 5_000 })
    // Subtract 1 % of clock drift on either side, and a twentieth of the lease for winding down.
    expect(deadlineMs).toBe(Math.ceil((15_000 * 0.99) / 1.01 / 1_000 - 0.75) * 1_000)
  })

  test('a long retry period makes a leader renew earlier, so that a failed renewal can be retried', async () => {
    const { failures } = await measure({ leaseDurationMs: 30_000, renewDeadlineMs: 20_000, retryPeriodMs: 15_000 })
    expect(failures).toHaveLength(2)
    expect(failures[0]).toBeLessThan(15_000)
  })

  test('a non-leader waits the LeaseDuration in the record, not its own', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    await memory.acquire(claim({ election, leaseDurationMs: 40_000 }), call)
    const { elector } = start(clock, memory, 'pod-0')
    await clock.advance(39_999)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(1 + 75)
    expect(elector.isLeader()).toBe(true)
  })

  test('timings with fractions of a millisecond are accepted', () => {
    for (let number = 1; number <= 2_000; number++) {
      const renewDeadlineMs = 3_000 + number / 7
      const retryPeriodMs = 2_500 + number / 13
      expect(() => start(fakeClock(), memoryStore(), 'pod', { renewDeadlineMs, retryPeriodMs })).not.toThrow()
    }
  })
})

describe('Document 003: Requirement: Leader Election Callbacks', () => {
  test('Scenario: OnStartedLeading invoked on leadership acquisition', async () => {
    const { clock, callbackCalls, leadership } = lone({ callbacks: { onStartedLeading: untilAborted } })
    await clock.advance(0)
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1'])
    expect(leadership()?.signal.aborted).toBe(false)
    await clock.advance(3_600_000)
    expect(leadership()?.signal.aborted, 'valid for the duration of leadership').toBe(false)
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1'])
  })

  test('Scenario: OnStoppedLeading invoked on leadership loss', async () => {
    const { clock, store, callbackCalls, leadership } = lone({ callbacks: { onStartedLeading: untilAborted } })
    await clock.advance(0)
    cutOff(store)
    await clock.advance(11_999)
    expect(callbackCalls).not.toContain('stopped')
    await clock.advance(1)
    expect(leadership()?.signal.reason).toMatchObject({ reason: 'expired', term: 1 })
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1', 'work ends aborted', 'stopped'])
  })

  test('Scenario: OnNewLeader invoked for all replicas', async () => {
    const { clock, replicas, leaders } = fleet(4)
    await clock.advance(1_000)
    const [first] = leaders()
    const named = (replica: Replica) => replica.callbackCalls.filter((text) => text.startsWith('leader '))
    for (const replica of replicas) expect(named(replica)).toEqual(['leader pod-0'])
    first?.abort()
    await clock.advance(1_000)
    const [second] = leaders()
    const name = second?.elector.getLeader()
    expect(name).toMatch(/^pod-[123]$/)
    for (const replica of replicas.slice(1)) expect(named(replica)).toEqual(['leader pod-0', `leader ${name}`])
  })

  test('OnNewLeader is called once per change of identity, not per renewal or term', async () => {
    const { clock, store, callbackCalls, leadership } = lone()
    await clock.advance(60_000)
    store.fault = () => 'error'
    await clock.advance(10_000)
    store.fault = () => undefined
    await clock.advance(20_000)
    expect(leadership()?.term).toBe(2)
    expect(callbackCalls.filter((text) => text.startsWith('leader '))).toEqual(['leader pod-0'])
  })

  test('OnStoppedLeading is called only after the work has settled', async () => {
    let settle = (): void => undefined
    const onStartedLeading = () => new Promise<void>((resolve) => (settle = resolve))
    const { clock, elector, store, callbackCalls } = lone({ callbacks: { onStartedLeading } })
    await clock.advance(0)
    cutOff(store)
    await clock.advance(120_000)
    expect(elector.isLeader()).toBe(false)
    const soFar = ['leader pod-0', 'started 1', 'leader ']
    expect(callbackCalls).toEqual(soFar)
    settle()
    await clock.advance(0)
    expect(callbackCalls).toEqual([...soFar, 'work ends aborted', 'stopped'])
  })

  test('OnStoppedLeading is not called on a replica that never led', async () => {
    const { clock, replicas } = fleet(2)
    await clock.advance(60_000)
    const [, standby] = replicas
    standby?.abort()
    await clock.advance(0)
    expect(standby?.run.state).toBe('resolved')
    expect(standby?.callbackCalls).toEqual(['leader pod-0'])
  })

  test('a replica that is aborted at the moment of its election neither starts nor stops leading', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    const onNewLeader = () => replica.abort()
    const replica = start(clock, memory, 'pod-0', { callbacks: { onStartedLeading: () => undefined, onNewLeader } })
    await clock.advance(1_000)
    expect(replica.run.state).toBe('resolved')
    expect(replica.callbackCalls).toEqual(['leader pod-0'])
    expect((await memory.read(election, call))?.released).toBe(true)
  })

  test('started and stopped callbacks alternate over many terms', async () => {
    const { clock, store, callbackCalls } = lone({ callbacks: { onStartedLeading: untilAborted } })
    for (let term = 1; term <= 5; term++) {
      await clock.advance(16_000)
      store.fault = () => 'error'
      await clock.advance(16_000)
      store.fault = () => undefined
    }
    const pairs = callbackCalls.filter((text) => /^(started|stopped)/.test(text))
    expect(pairs).toEqual([1, 2, 3, 4, 5].flatMap((term) => [`started ${term}`, 'stopped']))
  })

  test('work that returns early does not give up leadership', async () => {
    const { clock, elector, callbackCalls, abort } = lone()
    await clock.advance(60_000)
    expect(elector.isLeader()).toBe(true)
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1', 'work ends'])
    abort()
    await clock.advance(0)
    expect(callbackCalls.at(-1)).toBe('stopped')
  })

  test('a callback that throws is reported, and leadership continues', async () => {
    const boom = () => {
      throw new Error('boom')
    }
    const callbacks = { onStartedLeading: boom, onStoppedLeading: boom, onNewLeader: boom }
    const { clock, elector, run, events, abort } = lone({ callbacks })
    await clock.advance(60_000)
    expect(elector.isLeader()).toBe(true)
    abort()
    await clock.advance(0)
    expect(run.state).toBe('resolved')
    const errors = events.flatMap((event) => (event.type === 'error' ? [event.error] : []))
    expect(errors).toHaveLength(3)
    for (const error of errors) expect(error).toMatchObject({ code: 'WORK_FAILED', cause: { message: 'boom' } })
  })

  test('a callback that rejects is reported', async () => {
    const boom = async () => {
      await Promise.resolve()
      throw new Error('boom later')
    }
    const callbacks = { onStartedLeading: boom, onStoppedLeading: boom, onNewLeader: boom }
    const { clock, run, events, abort } = lone({ callbacks })
    await clock.advance(1_000)
    abort()
    await clock.advance(0)
    expect(run.state).toBe('resolved')
    const errors = events.flatMap((event) => (event.type === 'error' ? [event.error] : []))
    expect(errors).toHaveLength(3)
    for (const error of errors) expect(error).toMatchObject({ code: 'WORK_FAILED', cause: { message: 'boom later' } })
  })

  test('an observer that throws does not suppress callbacks', async () => {
    const observer = {
      onEvent: () => {
        throw new Error('observer')
      },
    }
    const { clock, callbackCalls, abort } = lone({ observer, callbacks: { onStartedLeading: untilAborted } })
    await clock.advance(0)
    abort()
    await clock.advance(0)
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1', 'work ends aborted', 'stopped'])
  })

  test('an observer may be an instance of a class', async () => {
    class Metrics {
      readonly seen: string[] = []
      onEvent(event: ElectionEvent): void {
        this.seen.push(event.type)
      }
      onCall({ verb }: { verb: string }): void {
        this.seen.push(verb)
      }
    }
    const observer = new Metrics()
    const { clock } = lone({ observer })
    await clock.advance(0)
    expect(observer.seen.toSorted()).toEqual(['acquire', 'elected', 'new-leader'])
  })
})

describe('Document 003: Requirement: Thread-Safe Leadership Queries', () => {
  test('Scenario: IsLeader returns true for the active leader', async () => {
    const { clock, elector } = lone()
    expect(elector.isLeader(), 'not before it holds the lease').toBe(false)
    await clock.advance(3_600_000)
    expect(elector.isLeader()).toBe(true)
  })

  test('Scenario: IsLeader returns false for non-leaders', async () => {
    const { clock, replicas } = fleet(3)
    for (let ms = 0; ms < 60_000; ms += 500) {
      await clock.advance(500)
      expect(replicas.map(({ elector }) => elector.isLeader())).toEqual([true, false, false])
    }
  })

  test('Scenario: GetLeader returns the current leader identity', async () => {
    const { clock, replicas } = fleet(3)
    for (const { elector } of replicas) expect(elector.getLeader()).toBe('')
    await clock.advance(1_000)
    for (const { elector } of replicas) expect(elector.getLeader()).toBe('pod-0')
  })

  test('GetLeader is empty when nobody leads', async () => {
    const { clock, elector, abort } = lone()
    await clock.advance(0)
    expect(elector.getLeader()).toBe('pod-0')
    abort()
    await clock.advance(0)
    expect(elector.getLeader()).toBe('')
  })

  test('GetLeader of a replica that lost its own lease no longer returns its identity', async () => {
    const { clock, elector, store } = lone()
    await clock.advance(0)
    cutOff(store)
    await clock.advance(30_000)
    expect(elector.isLeader()).toBe(false)
    expect(elector.getLeader()).toBe('')
  })

  test('GetLeader of a replica whose work outlives its lease is empty once others may lead', async () => {
    const { clock, elector, store } = lone({ callbacks: { onStartedLeading: () => never } })
    await clock.advance(0)
    cutOff(store)
    await clock.advance(14_000)
    expect(elector.isLeader()).toBe(false)
    expect(elector.getLeader(), 'the lease has not expired yet').toBe('pod-0')
    await clock.advance(1_000)
    expect(elector.getLeader()).toBe('')
  })

  test('IsLeader is true only while the lease lasts, even if no timer could fire', async () => {
    const clock = fakeClock()
    const stalling = stallable(clock)
    const { elector } = start(clock, memoryStore({ clock }), 'pod-0', { clock: stalling })
    await clock.advance(0)
    stalling.stall()
    await clock.advance(11_999)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
  })
})

describe('Document 003: Requirement: Graceful Release on Context Cancellation', () => {
  test('Scenario: Leader releases Lease on shutdown', async () => {
    const { clock, replicas, leaders } = fleet(2)
    await clock.advance(2_000)
    const [leader] = leaders()
    leader?.abort()
    await clock.advance(100)
    expect(leader?.run.state).toBe('resolved')
    expect(
      leaders().map(({ elector }) => elector.getLeader()),
      'long before the 15 s are over',
    ).toEqual(['pod-1'])
    expect(replicas[1]?.leadership()?.term).toBe(2)
  })

  test('the release waits for the work, and the lease is renewed until then', async () => {
    let settle = (): void => undefined
    const onStartedLeading = () => new Promise<void>((resolve) => (settle = resolve))
    const { clock, memory, run, callbackCalls, abort } = lone({ callbacks: { onStartedLeading } })
    await clock.advance(0)
    abort()
    await clock.advance(25_000)
    expect(run.state).toBe('pending')
    expect(await memory.acquire(claim({ election, afterTerm: 1 }), call)).toMatchObject({ ok: false })
    settle()
    await clock.advance(0)
    expect(run.state).toBe('resolved')
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1', 'work ends aborted', 'stopped'])
    expect((await memory.read(election, call))?.released).toBe(true)
  })

  test('with releaseOnCancel false the lease is not released and expires', async () => {
    const { clock, memory, run, abort } = lone({ releaseOnCancel: false })
    await clock.advance(1_000)
    abort()
    await clock.advance(0)
    expect(run.state).toBe('resolved')
    expect((await memory.read(election, call))?.released).toBe(false)
    await clock.advance(13_999)
    expect(await memory.acquire(claim({ election, afterTerm: 1 }), call)).toMatchObject({ ok: false })
    await clock.advance(1)
    expect(await memory.acquire(claim({ election, afterTerm: 1 }), call)).toMatchObject({ ok: true })
  })

  test('run resolves after drainTimeoutMs when work ignores its signal, and the lease is not released', async () => {
    const { clock, memory, run, abort } = lone({ drainTimeoutMs: 4_000, callbacks: { onStartedLeading: () => never } })
    await clock.advance(0)
    abort()
    await clock.advance(3_999)
    expect(run.state).toBe('pending')
    await clock.advance(1)
    expect(run.state).toBe('resolved')
    expect((await memory.read(election, call))?.released).toBe(false)
    expect(clock.timers).toBe(0)
  })

  test('run resolves when its signal aborts in any state, and leaves no timer', async () => {
    for (const ms of [0, 1, 5_000, 9_999, 10_000, 12_000, 30_000]) {
      const { clock, run, store, abort } = lone()
      if (ms > 5_000) cutOff(store)
      await clock.advance(ms)
      abort()
      await clock.advance(30_000)
      expect(run.state, `aborted after ${ms} ms`).toBe('resolved')
      expect(clock.timers).toBe(0)
    }
  })

  test('run resolves without a call when its signal has already aborted', async () => {
    const clock = fakeClock()
    const store = faultyStore(memoryStore({ clock }), clock)
    const callbacks = { onStartedLeading: () => undefined }
    const options = { store, leaseName: 'my-app', leaseNamespace: 'default', identity: 'pod-0', clock, callbacks }
    await new LeaderElector(options).run({ signal: AbortSignal.abort() })
    expect(store.calls).toEqual([])
  })

  test('a second run rejects with ALREADY_STARTED', async () => {
    const { elector } = lone()
    await expect(elector.run()).rejects.toMatchObject({ code: 'ALREADY_STARTED' })
  })
})

describe('Document 003: Requirement: Configuration Validation', () => {
  const options = {
    store: memoryStore(),
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity: 'pod-0',
    callbacks: { onStartedLeading: () => undefined },
  }

  test.each([
    ['Scenario: Missing Identity rejected', 'identity'],
    ['Scenario: Missing LeaseName rejected', 'leaseName'],
    ['Scenario: Missing LeaseNamespace rejected', 'leaseNamespace'],
  ])('%s', (_, field) => {
    for (const missing of ['', undefined, null]) {
      const construct = () => new LeaderElector({ ...options, [field]: missing })
      expect(construct).toThrow(TypeError)
      expect(construct).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
      expect(construct).toThrow(new RegExp(`Option "${field}" is`))
    }
    expect(() => new LeaderElector(options)).not.toThrow()
  })

  test('a namespace with a slash is rejected, because it could name a lease in another namespace', () => {
    expect(() => new LeaderElector({ ...options, leaseNamespace: 'a/b', leaseName: 'c' })).toThrow(
      /Option "leaseNamespace" is "a\/b"/,
    )
  })

  test('timings that allow two leaders are rejected: a lease of 3 s, a deadline of 2.9 s, and retries of 2.4 s', () => {
    const timings = { leaseDurationMs: 3_000, renewDeadlineMs: 2_900, retryPeriodMs: 2_400 }
    expect(() => new LeaderElector({ ...options, ...timings })).toThrow(
      /"renewDeadlineMs" is 2900.*two processes could lead/,
    )
  })
})

describe('Document 003: Requirement: Automatic Failover', () => {
  test('Scenario: Standby replica acquires Lease after leader failure', async () => {
    // Without a watch a standby sees the last renewal only at its next poll, and counts from there.
    for (const [watch, latestMs] of [
      [true, 15_000 + 75],
      [false, 20_000],
    ] as const) {
      const { clock, replicas, leaders } = fleet(3, { watch })
      await clock.advance(60_000)
      const [leader] = leaders()
      const lastRenewalMs = leader?.store.calls.findLast(({ verb }) => verb === 'renew')?.atMs ?? 0
      if (leader) cutOff(leader.store)
      while (leaders().length === 0 || leaders()[0] === leader) await clock.advance(100)
      const tookMs = clock.monotonicMs() - lastRenewalMs
      expect(tookMs, 'never before the lease has expired').toBeGreaterThanOrEqual(15_000)
      expect(tookMs, `watch: ${watch}`).toBeLessThanOrEqual(latestMs + 100)
      expect(replicas.filter(({ elector }) => elector.isLeader())).toHaveLength(1)
    }
  })

  test('Scenario: Standby replicas continuously attempt acquisition', async () => {
    const { clock, replicas } = fleet(2, { watch: false })
    await clock.advance(600_000)
    const [, standby] = replicas
    const times = standby?.store.calls.map(({ atMs }) => atMs) ?? []
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0))
    // The gaps are around the retry period of 2 s, with jitter so that a fleet does not stampede.
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(3_000)
    expect(times.length).toBeGreaterThan(250)
  })

  test('a leader that lost its lease campaigns again', async () => {
    const { clock, elector, store, leadership } = lone()
    await clock.advance(0)
    cutOff(store)
    await clock.advance(60_000)
    expect(elector.isLeader()).toBe(false)
    Object.assign(store, { fault: () => undefined, silentWatch: false })
    await clock.advance(20_000)
    expect(elector.isLeader()).toBe(true)
    expect(leadership()?.term).toBe(2)
  })

  test('run({ once: true }) returns after the first loss, as client-go does', async () => {
    const { clock, run, store, callbackCalls } = lone({ once: true })
    await clock.advance(60_000)
    expect(run.state).toBe('pending')
    cutOff(store)
    await clock.advance(12_000)
    expect(run.state).toBe('resolved')
    expect(callbackCalls).toEqual(['leader pod-0', 'started 1', 'work ends', 'stopped'])
    expect(clock.timers).toBe(0)
  })

  test('run({ once: true }) keeps campaigning until it has led', async () => {
    const clock = fakeClock()
    const memory = memoryStore({ clock })
    await memory.acquire(claim({ election, leaseDurationMs: 100_000 }), call)
    const { run, elector } = start(clock, memory, 'pod-0', { once: true })
    await clock.advance(99_999)
    expect(run.state).toBe('pending')
    await clock.advance(100)
    expect(elector.isLeader()).toBe(true)
  })
})
