import { describe, expect, test } from 'vitest'
import type { ElectionEvent, Leadership, LeadOptions } from '../../src/index.ts'
import { LeadershipLostError } from '../../src/common/errors.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { ttlStore } from '../../src/store-kit/ttl-store.ts'
import { lead } from '../../src/api/lead.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore } from '../faulty-store.ts'
import { call, claim, follow, never } from '../promise-outcome.ts'

/** One process that leads `e`, with its connection and its events. */
function scene(more: Partial<LeadOptions> = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const store = faultyStore(memory, clock)
  const events: ElectionEvent[] = []
  const observer = { onEvent: (event: ElectionEvent) => void events.push(event) }
  const options: LeadOptions = { store, election: 'e', identity: 'me', clock, observer, ...more }
  return { clock, memory, store, events, options, types: () => events.map(({ type }) => type) }
}

/** Work that rejects with its signal's reason when the signal aborts. */
const untilAborted = ({ signal }: Leadership) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))

describe('work that settles while leading', () => {
  test('lead resolves with the result of its work after the release', async () => {
    const { clock, memory, options } = scene()
    const outcome = await lead(options, async (leadership) => {
      expect(leadership.isLeader()).toBe(true)
      expect((await memory.read('e', call))?.released).toBe(false)
      return `done in term ${leadership.term}`
    })
    expect(outcome).toBe('done in term 1')
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('lead rejects with the error thrown by its work after the release', async () => {
    const { clock, memory, options } = scene()
    const failure = new Error('disk full')
    await expect(lead(options, () => Promise.reject(failure))).rejects.toBe(failure)
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('lead rejects with an error that its work throws before the first await', async () => {
    const { memory, options } = scene()
    const failure = new Error('no such table')
    await expect(
      lead(options, () => {
        throw failure
      }),
    ).rejects.toBe(failure)
    expect((await memory.read('e', call))?.released).toBe(true)
  })

  test('work may return a plain value', async () => {
    expect(await lead(scene().options, ({ term }) => term)).toBe(1)
  })

  test('the lease is renewed for as long as the work runs', async () => {
    const { clock, options, types } = scene()
    let finish = (): void => undefined
    const outcome = follow(lead(options, () => new Promise<void>((resolve) => (finish = resolve))))
    await clock.advance(600_000)
    expect(outcome.state).toBe('pending')
    finish()
    await clock.advance(0)
    expect(outcome.state).toBe('resolved')
    expect(types().filter((type) => type === 'renewed')).toHaveLength(120)
  })

  test('lead keeps the result when the release fails, and the failure is reported', async () => {
    const { clock, store, options, events } = scene()
    store.fault = (verb) => (verb === 'release' ? 'error' : undefined)
    const outcome = follow(lead(options, () => 'kept'))
    await clock.advance(10_000)
    expect(outcome).toMatchObject({ state: 'resolved', value: 'kept' })
    expect(events.filter(({ type }) => type === 'error')).toHaveLength(1)
  })
})

describe('work that settles after a loss', () => {
  /** Loses the first leadership at its deadline. The work settles when `settle` is called. */
  async function lose(more: Partial<LeadOptions> = {}, ending: () => unknown = () => 'too late') {
    const it = scene(more)
    const terms: number[] = []
    let settle = (): void => undefined
    const outcome = follow(
      lead(it.options, async ({ term }) => {
        terms.push(term)
        if (term > 1) return 'second try'
        await new Promise<void>((resolve) => (settle = resolve))
        return ending()
      }),
    )
    await it.clock.advance(0)
    it.store.fault = () => 'error'
    await it.clock.advance(10_000)
    it.store.fault = () => undefined
    return { ...it, terms, outcome, settle: () => settle() }
  }

  test('lead drops the result of work that lost its lease and campaigns again with a new term', async () => {
    const { clock, terms, outcome, settle, types } = await lose()
    await clock.advance(60_000)
    expect(outcome.state, 'unsettled work keeps its own elector from campaigning').toBe('pending')
    expect(terms).toEqual([1])
    expect(types()).not.toContain('lost')
    settle()
    await clock.advance(20_000)
    expect(outcome).toMatchObject({ state: 'resolved', value: 'second try' })
    expect(terms).toEqual([1, 2])
    expect(types()).toContain('lost')
  })

  test('an error thrown by work that has lost its lease is reported as WORK_FAILED', async () => {
    const failure = new Error('half written')
    const { clock, outcome, settle, events } = await lose({}, () => {
      throw failure
    })
    settle()
    await clock.advance(20_000)
    expect(outcome).toMatchObject({ state: 'resolved', value: 'second try' })
    const reported = events.flatMap((event) => (event.type === 'error' ? [event.error] : []))
    expect(reported).toContainEqual(expect.objectContaining({ code: 'WORK_FAILED', cause: failure }))
  })

  test("work that rejects with its signal's reason is not reported as failed", async () => {
    const { clock, store, options, events } = scene()
    const outcome = follow(lead(options, (leadership) => (leadership.term > 1 ? 'again' : untilAborted(leadership))))
    await clock.advance(0)
    store.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
    await clock.advance(30_000)
    expect(outcome).toMatchObject({ state: 'resolved', value: 'again' })
    expect(events.filter(({ type }) => type === 'error')).toEqual([])
  })

  test("onLoss 'throw' rejects with a LeadershipLostError once the work has settled", async () => {
    const { clock, terms, outcome, settle } = await lose({ onLoss: 'throw' })
    await clock.advance(60_000)
    expect(outcome.state).toBe('pending')
    settle()
    await clock.advance(0)
    expect(outcome.error).toBeInstanceOf(LeadershipLostError)
    expect(outcome.error).toMatchObject({ code: 'LEADERSHIP_LOST', reason: 'expired', term: 1, election: 'e' })
    await clock.advance(60_000)
    expect(terms).toEqual([1])
    expect(clock.timers).toBe(0)
  })
})

describe('options.signal', () => {
  test('aborting options.signal drains the work, releases the lease, and rejects with the reason', async () => {
    const controller = new AbortController()
    const { clock, memory, options } = scene({ signal: controller.signal })
    const reason = new Error('SIGTERM')
    let settle = (): void => undefined
    let seen: unknown
    const outcome = follow(
      lead(options, async ({ signal }) => {
        await new Promise<void>((resolve) => (settle = resolve))
        seen = signal.reason
        return 'drained'
      }),
    )
    await clock.advance(1_000)
    controller.abort(reason)
    await clock.advance(20_000)
    expect(outcome.state, 'lead waits for the work').toBe('pending')
    expect((await memory.read('e', call))?.released, 'the lease is not released while the work runs').toBe(false)
    settle()
    await clock.advance(0)
    expect(outcome).toMatchObject({ state: 'rejected', error: reason })
    expect(seen).toMatchObject({ code: 'LEADERSHIP_LOST', reason: 'stopped' })
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('lead rejects without a store call when its signal has already aborted', async () => {
    const reason = new Error('not today')
    const { clock, store, options } = scene({ signal: AbortSignal.abort(reason) })
    await expect(lead(options, () => expect.unreachable())).rejects.toBe(reason)
    expect(store.calls).toEqual([])
    expect(clock.timers).toBe(0)
  })

  test('lead rejects without running its work when its signal aborts while another process leads', async () => {
    const controller = new AbortController()
    const { clock, memory, options } = scene({ signal: controller.signal })
    await memory.acquire(claim(), call)
    let runs = 0
    const outcome = follow(lead(options, () => void (runs += 1)))
    await clock.advance(5_000)
    controller.abort(new Error('enough'))
    await clock.advance(0)
    expect(outcome).toMatchObject({ state: 'rejected', error: { message: 'enough' } })
    expect(runs).toBe(0)
    expect(await memory.read('e', call)).toMatchObject({ holder: 'other', released: false })
    expect(clock.timers).toBe(0)
  })

  test('lead does not run its work when a listener aborts the signal at the moment of election', async () => {
    const controller = new AbortController()
    const observer = {
      onEvent: ({ type }: ElectionEvent) => {
        if (type === 'elected') controller.abort(new Error('at once'))
      },
    }
    const { clock, memory, options } = scene({ signal: controller.signal, observer })
    let runs = 0
    const outcome = follow(lead(options, () => void (runs += 1)))
    await clock.advance(0)
    expect(outcome).toMatchObject({ state: 'rejected', error: { message: 'at once' } })
    expect(runs).toBe(0)
    expect((await memory.read('e', call))?.released).toBe(true)
  })
})

describe('work that ignores its signal', () => {
  test('lead rejects after drainTimeoutMs when work ignores its signal, and leaves the lease to expire', async () => {
    const controller = new AbortController()
    const { clock, memory, options } = scene({ signal: controller.signal, drainTimeoutMs: 7_000 })
    const outcome = follow(lead(options, () => never))
    await clock.advance(0)
    controller.abort(new Error('stop'))
    await clock.advance(6_999)
    expect(outcome.state).toBe('pending')
    await clock.advance(1)
    expect(outcome).toMatchObject({ state: 'rejected', error: { message: 'stop' } })
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(clock.timers).toBe(0)
    const other = claim({ afterTerm: 1 })
    await clock.advance(12_999)
    expect(await memory.acquire(other, call), 'renewed at 5 s, so it lasts until 20 s').toMatchObject({ ok: false })
    await clock.advance(1)
    expect(await memory.acquire(other, call)).toMatchObject({ ok: true })
  })

  test('lead rejects after drainTimeoutMs even if leadership was lost before', async () => {
    const controller = new AbortController()
    const { clock, store, options } = scene({ signal: controller.signal, drainTimeoutMs: 7_000 })
    const outcome = follow(lead(options, () => never))
    await clock.advance(0)
    cutOff(store)
    await clock.advance(60_000)
    controller.abort(new Error('stop'))
    await clock.advance(6_999)
    expect(outcome.state).toBe('pending')
    await clock.advance(1)
    expect(outcome).toMatchObject({ state: 'rejected', error: { message: 'stop' } })
    expect(clock.timers).toBe(0)
  })
})

test('lead rejects a store without lasting terms and suggests another store', async () => {
  const clock = fakeClock()
  const store = ttlStore(memoryTtlStorage({ clock }), { clock })
  await expect(lead({ store, election: 'e', clock }, () => expect.unreachable())).rejects.toMatchObject({
    code: 'TERMS_REQUIRED',
    message: expect.stringContaining('Use another store'),
  })
  expect(clock.timers).toBe(0)
})

test('several processes work one at a time, and each gets its turn', async () => {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  let working = 0
  const order: number[] = []
  const runs = Array.from({ length: 5 }, (_, number) =>
    lead({ store, election: 'e', identity: `n${number}`, clock }, async ({ term }) => {
      expect(++working).toBe(1)
      order.push(term)
      await new Promise<void>((resolve) => clock.setTimer(3_000, resolve))
      working -= 1
      return number
    }),
  )
  await clock.advance(60_000)
  expect(await Promise.all(runs)).toEqual([0, 1, 2, 3, 4])
  expect(order).toEqual([1, 2, 3, 4, 5])
  expect(clock.timers).toBe(0)
})

test('lead waits for work that aborts options.signal itself, and releases the lease afterwards', async () => {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  const stopping = new AbortController()
  let finish = (): void => undefined
  const cleanup = new Promise<void>((resolve) => (finish = resolve))
  const outcome = lead({ store, election: 'e', clock, signal: stopping.signal }, async () => {
    stopping.abort(new Error('enough'))
    await cleanup
  })
  const rejected = expect(outcome).rejects.toThrow('enough')
  await clock.advance(1_000)
  expect((await store.read('e', { signal: new AbortController().signal }))?.released).toBe(false)
  finish()
  await clock.advance(0)
  await rejected
  expect((await store.read('e', { signal: new AbortController().signal }))?.released).toBe(true)
})
