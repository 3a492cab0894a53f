import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { isTenureError, memoryStore, type ElectionEvent } from '../../../src/index.ts'
import { call, leading, lease, scene, stopAndCheck } from './elector-fixture.ts'

describe('waiting and watching', () => {
  test('waitForLeadership rejects when the elector stops or the signal aborts', async () => {
    const { elector, make, clock } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    const controller = new AbortController()
    const first = standby.waitForLeadership({ signal: controller.signal })
    const second = standby.waitForLeadership()
    controller.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    const refused = expect(second).rejects.toSatisfy((error) => isTenureError(error) && error.code === 'STOPPED')
    await Promise.all([standby.stop(), clock.advance(0)])
    await refused
    await expect(standby.waitForLeadership()).rejects.toMatchObject({ code: 'STOPPED' })
    await stopAndCheck(elector, clock)
  })

  test('a slow reader of events gets a gap event in place of the missed ones (E1)', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    elector.start()
    await clock.advance(400 * 5_000)
    await elector.stop()
    const events: ElectionEvent[] = []
    for await (const event of reader) events.push(event)
    const gap = events.find(({ type }) => type === 'gap')
    expect(gap).toMatchObject({ type: 'gap' })
    // new-leader, elected, 400 renewals, and lost: every missing event is counted.
    expect(events.length - 1 + (gap?.type === 'gap' ? gap.missed : 0)).toBe(403)
  })

  test('every next() of events settles, even when two are pending at once', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    const both = Promise.all([reader.next(), reader.next()])
    elector.start()
    await clock.advance(0)
    expect((await both).map(({ value }) => value?.type)).toEqual(['new-leader', 'elected'])
    await stopAndCheck(elector, clock)
  })

  test('an elector leaves no listener on the signals that it was given (C9)', async () => {
    const { elector, clock } = scene()
    const { signal } = new AbortController()
    elector.start({ signal })
    void elector.events({ signal })
    await elector.waitForLeadership({ signal })
    await stopAndCheck(elector, clock)
    void elector.events({ signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  const nonsense: unknown[] = [
    undefined,
    null,
    5,
    {},
    { ok: true },
    { ok: true, record: {}, validForMs: 15_000 },
    { ok: false },
    { ok: false, highestTerm: NaN },
    { ok: false, highestTerm: 2 ** 60 },
    { ok: false, highestTerm: 0, retryAfterMs: -1 },
    { ok: false, highestTerm: 0, record: { term: 1 } },
  ]
  test.each(nonsense)('a malformed response counts as no answer: %j (B6, D9, D10)', async (answer) => {
    for (const verb of ['acquire', 'renew', 'release'] as const) {
      const { clock, make, memory } = scene({ watch: false })
      const elector = make({ store: { ...memory, [verb]: async () => answer } })
      elector.start()
      await clock.advance(4 * lease)
      if (verb === 'acquire') expect(elector.isLeader()).toBe(false)
      // A leader calls release only when it leaves.
      if (verb === 'release') {
        const left = elector.stepDown().catch(() => undefined)
        await clock.advance(lease)
        await left
      }
      expect(elector.explain().lastErrors.length).toBeGreaterThan(0)
      await stopAndCheck(elector, clock)
    }
  })

  test.each([NaN, 0, -1, Infinity, undefined])(
    'a grant whose validForMs is %s counts only for the duration in its record',
    async (validForMs) => {
      const { clock, make, memory } = scene()
      const distort =
        <A extends unknown[]>(verb: (...args: A) => Promise<object>) =>
        async (...args: A) =>
          ({ ...(await verb(...args)), validForMs }) as never
      const elector = make({ store: { ...memory, acquire: distort(memory.acquire), renew: distort(memory.renew) } })
      elector.start()
      // The record shows the grant and its duration, so the elector leads. It accepts no renewal.
      await clock.advance(5_000)
      const { signal } = await elector.waitForLeadership()
      await clock.advance(5_000)
      expect(signal.aborted).toBe(true)
      await stopAndCheck(elector, clock)
    },
  )

  test('a watch that yields a malformed record ends and is opened again', async () => {
    const { clock, make, memory } = scene()
    let opened = 0
    const store = {
      ...memory,
      async *watch() {
        opened += 1
        yield { version: 5 } as never
      },
    }
    await memory.acquire(
      { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} },
      call,
    )
    const elector = make({ store })
    elector.start()
    await clock.advance(2 * lease)
    expect(opened).toBeGreaterThan(2)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('explain describes the state as text and as data', async () => {
    const { elector, make, clock } = scene()
    expect(elector.explain()).toMatchObject({ phase: 'idle', isLeader: false, leader: undefined })
    elector.start()
    await clock.advance(1_000)
    expect(elector.explain()).toMatchObject({ phase: 'leading', isLeader: true, term: 1, leaseEndsInMs: 9_000 })
    expect(elector.explain().summary).toBe('Leads "e" in term 1. Without a renewal, leadership ends in 9.0 s.')
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(0)
    expect(standby.explain()).toMatchObject({ phase: 'standby', isLeader: false, leader: { holder: 'a', term: 1 } })
    expect(standby.explain().summary).toMatch(/^On standby: "a" holds "e" in term 1/)
    await stopAndCheck(standby, clock).catch(() => undefined)
    await stopAndCheck(elector, clock)
    expect(elector.explain().summary).toBe('Stopped: it no longer campaigns for "e".')
  })

  test('an elector does not lead while acquire fails, and explain shows the error (D9)', async () => {
    const { clock, make } = scene()
    const store = memoryStore({ clock })
    const elector = make({ store: { ...store, acquire: async () => Promise.reject(new Error('garbage')) } })
    elector.start()
    await clock.advance(10 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(elector.explain().summary).toMatch(/Last error: garbage/)
    await stopAndCheck(elector, clock)
  })
})
