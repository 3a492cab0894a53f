import { casStore, memoryStore, resolveTimings, type LeaseStore } from 'tenure'
import { describe, expect, test } from 'vitest'
import { race, type Race } from '../../../src/commands/doctor/race.ts'
import { ProbeElection } from '../../../src/commands/doctor/probe-election.ts'

type Entries = Map<string, { value: string; version: string }>
type Kind = 'create' | 'swap'

const call = { signal: new AbortController().signal, timeoutMs: 10_000 }
const turn = () => new Promise(setImmediate)

/** A server that keeps its data in memory. Writes of the kind in `gap` are compared first and applied a moment later. */
class CasServer {
  readonly entries: Entries = new Map()
  readonly #gap: readonly Kind[]
  #writes = 0
  connections = 0

  constructor(...gap: readonly Kind[]) {
    this.#gap = gap
  }

  /** A separate connection, which carries out one command after another, like one of Redis or PostgreSQL. */
  connect(): LeaseStore {
    this.connections += 1
    let last: Promise<unknown> = Promise.resolve()
    const inTurn = <T>(command: () => Promise<T>): Promise<T> => {
      const answer = last.then(command)
      last = answer.catch(() => {})
      return answer
    }
    return casStore({
      get: (election) => inTurn(async () => this.entries.get(election)),
      putIfVersion: (election, value, version) => inTurn(() => this.#put(election, value, version)),
      removeIfVersion: async (election, version) =>
        this.entries.get(election)?.version === version && this.entries.delete(election),
    })
  }

  async #put(election: string, value: string, version: string | undefined): Promise<string | undefined> {
    if (this.entries.get(election)?.version !== version) return undefined
    if (this.#gap.includes(version === undefined ? 'create' : 'swap')) await turn()
    const next = String(++this.#writes)
    this.entries.set(election, { value, version: next })
    return next
  }
}

async function racedOn(store: LeaseStore, open: () => LeaseStore, forgets = true): Promise<Race> {
  const timings = resolveTimings({ leaseDurationMs: 60_000 })
  const probe = new ProbeElection(store, { election: 'probe', holder: 'doctor', timings, timeoutMs: 10_000, forgets })
  expect(await probe.acquire(undefined)).toBeUndefined()
  return race(probe, async () => open())
}

const fair = { rounds: 5, winners: 1, withoutWinner: 0, failed: 0 }

describe('the race of the doctor', () => {
  test('a store that compares and swaps atomically has one winner in each round, and keeps no record', async () => {
    const server = new CasServer()
    const raced = await racedOn(server.connect(), () => server.connect())
    expect(raced).toEqual({ racers: 16, swaps: fair, creates: fair })
    expect(server.entries.size).toBe(0)
  })

  test.each([
    ['create', { creates: { rounds: 1 }, swaps: fair }],
    ['swap', { creates: fair, swaps: { rounds: 1 } }],
  ] as const)(
    'the race finds a gap between comparison and %s on a server whose connections carry out one command at a time',
    async (kind, expected) => {
      const server = new CasServer(kind)
      const raced = await racedOn(server.connect(), () => server.connect())
      expect(raced).toMatchObject(expected)
      const { winners } = 'why' in raced ? { winners: 0 } : (raced[`${kind}s`] ?? { winners: 0 })
      expect(winners).toBeGreaterThan(1)
      expect(server.connections).toBe(17)
      expect(server.entries.size).toBe(0)
    },
  )

  test('one shared connection would hide the gap, which is why each racer opens its own', async () => {
    const server = new CasServer('create', 'swap')
    const store = server.connect()
    expect(await racedOn(store, () => store)).toEqual({ racers: 16, swaps: fair, creates: fair })
  })

  test('the race counts a round in which the store refuses every racer', async () => {
    const server = new CasServer()
    const refuse = () => casStore({ get: async () => server.entries.get('probe'), putIfVersion: async () => undefined })
    const raced = await racedOn(server.connect(), refuse)
    const none = { winners: 0, withoutWinner: 5, failed: 0 }
    expect(raced).toMatchObject({ swaps: { ...none, rounds: 5 }, creates: { ...none, withoutWinner: 1, rounds: 1 } })
  })

  test('the race counts a call without an answer as failed, and then keeps a released record', async () => {
    const server = new CasServer()
    const open = () => {
      const isFirst = server.connections === 1
      const store = server.connect()
      const cutOff = async () => Promise.reject(new Error('the connection was closed'))
      return isFirst ? { ...store, acquire: cutOff } : store
    }
    const raced = await racedOn(server.connect(), open)
    expect(raced).toEqual({ racers: 16, swaps: fair, creates: { ...fair, rounds: 1, failed: 1 } })
    expect(await server.connect().read('probe', call)).toMatchObject({ released: true, term: 1 })
  })

  test('the race proves nothing while another process takes the election', async () => {
    const server = new CasServer()
    const store = server.connect()
    const other = {
      election: 'probe',
      holder: 'b',
      attempt: 'b.1',
      leaseDurationMs: 60_000,
      afterTerm: 0,
      metadata: {},
    }
    const forget: LeaseStore['forget'] = async (claim, options) => {
      const forgotten = await store.forget?.(claim, options)
      await store.acquire(other, options)
      return forgotten ?? { ok: true }
    }
    const raced = await racedOn({ ...store, forget }, () => server.connect())
    expect(raced).toMatchObject({ swaps: fair, creates: { rounds: 0, winners: 0, withoutWinner: 0 } })
    expect(await store.read('probe', call)).toMatchObject({ attempt: 'b.1', released: false })
  })

  test('the race uses the connections that the server accepts, and reports why it accepts only one', async () => {
    const server = new CasServer()
    const limited = (most: number) => () => {
      const store = server.connect()
      const full = async () => Promise.reject(new Error('too many connections'))
      return server.connections > most + 1 ? { ...store, read: full } : store
    }
    expect(await racedOn(server.connect(), limited(4))).toMatchObject({ racers: 4, creates: fair })
    const one = new CasServer()
    const first = one.connect()
    const single = () => (one.connections === 1 ? one.connect() : { ...first, read: limited(0)().read })
    const why = 'the store accepted 1 of 16 connections: too many connections'
    expect(await racedOn(first, single)).toEqual({ why })
  })

  test('the race does not create an election that may not be forgotten', async () => {
    const server = new CasServer()
    const raced = await racedOn(server.connect(), () => server.connect(), false)
    expect(raced).toEqual({ racers: 16, swaps: fair, creates: undefined })
    expect(await server.connect().read('probe', call)).toMatchObject({ released: true, term: 1 })
  })

  test('the race does not close a store that the doctor still uses', async () => {
    const store = memoryStore()
    let closed = 0
    const shared: LeaseStore = { ...store, close: async () => void (closed += 1) }
    expect(await racedOn(shared, () => shared)).toEqual({ racers: 16, swaps: fair, creates: fair })
    expect(closed).toBe(0)
  })
})
