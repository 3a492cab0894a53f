import { describe, expect, test } from 'vitest'
import type { Clock } from '../../src/common/clock.ts'
import { step } from '../../src/engine/election.ts'
import { initialState, type Input, type ElectionSettings } from '../../src/engine/election-state.ts'
import { Elector, type CallOptions, type ElectionEvent, type LeaseStore } from '../../src/index.ts'
import { casStore } from '../../src/store-kit/cas-store.ts'
import { noPreference } from '../../src/engine/preference.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { granted, judgeAcquire } from '../../src/store-kit/rules.ts'
import { resolveTimings, type TimingOptions } from '../../src/engine/timings.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import type { StoreElectorOptions } from '../../src/api/leader-elector-options.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'

/** A server that is slow, stalls for a while, or loses a request. Each request is a separate call. */
class Server {
  latencyMs = 0
  stalledUntilMs = 0
  losesNext = false
  /** Whether the first request after a lost one is refused. */
  refusesNext = false
  requests = 0
  readonly #clock: FakeClock
  readonly #kv = simulatedKv({ watch: false })

  constructor(clock: FakeClock) {
    this.#clock = clock
  }

  get store(): LeaseStore {
    const { clock } = { clock: this.#clock as Clock }
    return casStore(
      {
        get: (election, call) => this.#serve(call, () => this.#kv.get(election, call)),
        putIfVersion: (election, value, version, call) =>
          this.#serve(call, () => this.#kv.putIfVersion(election, value, version, call)),
      },
      { clock },
    )
  }

  stall(ms: number): void {
    this.stalledUntilMs = this.#clock.monotonicMs() + ms
  }

  #serve<T>({ signal }: CallOptions, work: () => Promise<T>): Promise<T> {
    this.requests += 1
    const lost = this.losesNext
    this.losesNext = false
    if (!lost && this.refusesNext) {
      this.refusesNext = false
      return Promise.reject(new Error('connect ECONNREFUSED'))
    }
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
      if (lost) return
      const arriveMs = Math.max(this.latencyMs / 2, this.stalledUntilMs - this.#clock.monotonicMs())
      this.#clock.setTimer(arriveMs, () => {
        void work().then((answer) => this.#clock.setTimer(this.latencyMs / 2, () => resolve(answer)))
      })
    })
  }
}

function scene() {
  const clock = fakeClock()
  const server = new Server(clock)
  const events: (ElectionEvent & { atMs: number })[] = []
  const observer = { onEvent: (event: ElectionEvent) => void events.push({ ...event, atMs: clock.monotonicMs() }) }
  const common = { store: server.store, clock, observer }
  const leaderElector = (more: Partial<StoreElectorOptions> = {}) => {
    const named = { leaseName: 'e', leaseNamespace: 'n', identity: 'a', callbacks: { onStartedLeading() {} } }
    void new LeaderElector({ ...common, ...named, ...more }).run()
  }
  return {
    clock,
    server,
    leaderElector,
    elector: (timings: TimingOptions = {}) =>
      new Elector({ ...common, election: 'e', identity: 'a', ...timings }).start(),
    losses: () => events.filter(({ type }) => type === 'lost').length,
    electedAtMs: () => events.find(({ type }) => type === 'elected')?.atMs,
  }
}

describe('a slow store', () => {
  // client-go leads after two calls: a read and a write.
  test.each([500, 1_000, 2_000, 2_700, 3_000])(
    'a leader is elected and keeps its lease at a store latency of %d ms with the client-go timings',
    async (ms) => {
      const { clock, server, leaderElector, losses, electedAtMs } = scene()
      server.latencyMs = ms
      leaderElector({ leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 })
      await clock.advance(2 * ms)
      expect(electedAtMs()).toBe(2 * ms)
      await clock.advance(600_000)
      expect(losses()).toBe(0)
    },
  )

  test.each([500, 1_000, 2_000, 2_500])(
    'a leader is elected and keeps its lease at a store latency of %d ms with the default timings',
    async (ms) => {
      const { clock, server, elector, losses, electedAtMs } = scene()
      server.latencyMs = ms
      elector()
      await clock.advance(2 * ms)
      expect(electedAtMs()).toBe(2 * ms)
      await clock.advance(600_000)
      expect(losses()).toBe(0)
    },
  )
})

describe('a store that stalls', () => {
  const phases = Array.from({ length: 20 }, (_, index) => index * 100)

  test.each([1_000, 3_000, 5_000, 7_000, 9_000])(
    'leadership survives a store stall of %d ms with the client-go timings, whenever it begins',
    async (ms) => {
      for (const phaseMs of phases) {
        const { clock, server, leaderElector, losses } = scene()
        server.latencyMs = 20
        leaderElector({ leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 })
        await clock.advance(60_000 + phaseMs)
        server.stall(ms)
        await clock.advance(60_000)
        expect(losses(), `at ${phaseMs} ms`).toBe(0)
      }
    },
  )

  test('leadership ends in time when the store stalls for longer than the lease allows', async () => {
    const { clock, server, leaderElector, losses } = scene()
    leaderElector()
    await clock.advance(60_000)
    server.stall(14_000)
    await clock.advance(13_999)
    expect(losses()).toBe(1)
  })
})

test('leadership survives any single lost renewal', async () => {
  for (const style of ['leaderElector', 'elector'] as const) {
    const { clock, server, losses, [style]: start } = scene()
    server.latencyMs = 20
    start()
    for (let turn = 0; turn < 10; turn++) {
      await clock.advance(30_000 + turn * 700)
      server.losesNext = true
      await clock.advance(15_000)
    }
    expect(losses()).toBe(0)
  }
})

test('leadership survives a lost renewal followed by a refused connection', async () => {
  for (const style of ['leaderElector', 'elector'] as const) {
    const { clock, server, losses, [style]: start } = scene()
    server.latencyMs = 20
    start()
    for (let turn = 0; turn < 10; turn++) {
      await clock.advance(60_000 + turn * 700)
      server.losesNext = true
      server.refusesNext = true
      await clock.advance(15_000)
    }
    expect(losses()).toBe(0)
  }
})

test('leadership survives one failed renewal even if the retry is due at the deadline', async () => {
  const { clock, server, losses, elector } = scene()
  elector({ renewIntervalMs: 5_000, renewDeadlineMs: 10_000, retryIntervalMs: 5_000 })
  await clock.advance(62_000)
  server.refusesNext = true
  await clock.advance(30_000)
  expect(losses()).toBe(0)
})

test('an answer that was delayed by a stalled process does not lengthen the timeout of later calls', () => {
  const settings: ElectionSettings = {
    ...resolveTimings({ leaseDurationMs: 1_200 }),
    ...noPreference,
    election: 'e',
    identity: 'a',
    metadata: {},
    drainTimeoutMs: 1_200,
    releaseOnStop: true,
    canWatch: false,
    readsFirst: false,
    terms: true,
    until: 'stopped',
    waitMs: 0,
  }
  let state = initialState(settings)
  let names = 0
  const take = (input: object, nowMs: number) => {
    const moment = { nowMs, sleptMs: 0, fresh: () => `name-${++names}`, chance: () => 0 }
    const after = step(state, { ...input, ...moment } as Input)
    state = after.state
    const effect = after.effects.findLast(({ type }) => type === 'call')
    return effect?.type === 'call' ? effect.call : expect.unreachable('no call was sent')
  }
  const acquire = take({ type: 'start' }, 0)
  if (acquire.verb !== 'acquire') return expect.unreachable('the first call is not an acquire')
  const verdict = judgeAcquire({ record: undefined, highestTerm: 0, remainingMs: undefined }, acquire.claim, 0)
  if ('answer' in verdict) return expect.unreachable('the first claim was refused')
  const outcome = granted({ ...verdict.write, version: 'v1' }, acquire.claim)
  const release = take({ type: 'answer', call: acquire.id, outcome }, 7_200)
  expect(release.verb).toBe('release')
  expect(release.boundMs).toBeLessThanOrEqual(settings.leaseDurationMs)
})
