import { describe, expect, test } from 'vitest'
import { Elector, type CallOptions, type LeaseStore } from '../../src/index.ts'
import { casStore } from '../../src/store-kit/cas-store.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'

const timings = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, renewIntervalMs: 2_000, retryIntervalMs: 2_000 }

/** A network on which each message, even the handshake of a connection, takes the same time. */
class Network {
  readonly #clock: FakeClock
  readonly #roundTripMs: number
  #isConnected = false

  constructor(clock: FakeClock, roundTripMs: number) {
    this.#clock = clock
    this.#roundTripMs = roundTripMs
  }

  async call<T>({ signal }: CallOptions, work: () => Promise<T>): Promise<T> {
    if (!this.#isConnected) await this.#wait(this.#roundTripMs, signal)
    this.#isConnected = true
    await this.#wait(this.#roundTripMs / 2, signal)
    const answer = await work()
    await this.#wait(this.#roundTripMs / 2, signal)
    return answer
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#clock.setTimer(ms, () => resolve())
      signal.addEventListener('abort', () => {
        // An HTTP/1.1 connection with an unanswered request cannot be used again.
        this.#isConnected = false
        reject(signal.reason as Error)
      })
    })
  }
}

function scene(roundTripMs = 0) {
  const clock = fakeClock()
  const kv = simulatedKv({ watch: true })
  const calls: string[] = []
  const open = (identity: string) => {
    const network = new Network(clock, roundTripMs)
    const store: LeaseStore = casStore(
      {
        get: (election, call) => network.call(call, () => kv.get(election, call)),
        putIfVersion: (election, value, version, call) =>
          network.call(call, () => kv.putIfVersion(election, value, version, call)),
        watch: (election, call) => kv.watch?.(election, call) ?? expect.unreachable('this backend can watch'),
      },
      { clock },
    )
    const counted: LeaseStore = {
      ...store,
      readsFirst: true,
      read: (...args) => (calls.push('read'), store.read(...args)),
      acquire: (...args) => (calls.push('acquire'), store.acquire(...args)),
      watch: (...args) => (calls.push('watch'), store.watch?.(...args) ?? expect.unreachable('this store can watch')),
    }
    return new Elector({ store: counted, election: 'e', identity, clock, ...timings })
  }
  return { clock, calls, open }
}

describe('a store that reads first', () => {
  // client-go also needs three round trips: for the connection, a read, and a write.
  test.each([0, 1_000, 2_000, 2_700, 3_000])(
    'a leader is elected after three round trips of %d ms and keeps its lease',
    async (roundTripMs) => {
      const { clock, open } = scene(roundTripMs)
      const elector = open('a')
      elector.start()
      await clock.advance(3 * roundTripMs + 1)
      expect(elector.isLeader()).toBe(true)
      const { term } = await elector.waitForLeadership()
      await clock.advance(600_000)
      expect(elector.isLeader()).toBe(true)
      expect((await elector.waitForLeadership()).term).toBe(term)
    },
  )

  test('an elector that finds a free lease opens no watch', async () => {
    const { clock, calls, open } = scene()
    const elector = open('a')
    elector.start()
    await clock.advance(1)
    expect(elector.isLeader()).toBe(true)
    expect(calls).toEqual(['read', 'acquire'])
  })

  test('an elector that finds a released lease opens no watch', async () => {
    const { clock, calls, open } = scene()
    const first = open('a')
    first.start()
    await clock.advance(1)
    const stopped = first.stop()
    await clock.advance(1)
    await stopped
    calls.length = 0
    const second = open('b')
    second.start()
    await clock.advance(1)
    expect(second.isLeader()).toBe(true)
    expect(calls).toEqual(['read', 'acquire'])
  })

  test('an elector that finds a held lease watches it and sends no acquire', async () => {
    const { clock, calls, open } = scene()
    open('a').start()
    await clock.advance(1)
    calls.length = 0
    open('b').start()
    await clock.advance(1)
    expect(calls).toEqual(['read', 'watch'])
  })

  test('an elector that campaigns only once gives up when it finds a held lease', async () => {
    const { clock, open } = scene()
    open('a').start()
    await clock.advance(1)
    const second = open('b')
    second.start({ until: 'refused' })
    const refused = expect(second.waitForLeadership()).rejects.toMatchObject({ code: 'BUSY' })
    await clock.advance(1)
    await refused
  })
})
