import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { isTenureError, memoryStore, type ElectionEvent } from '../../src/index.ts'
import { call, leading, lease, scene, stopAndCheck } from './scene.ts'

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

  test('a reader of events that falls behind gets a gap in their place (E1)', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    elector.start()
    await clock.advance(400 * 5_000)
    await elector.stop()
    const events: ElectionEvent[] = []
    for await (const event of reader) events.push(event)
    const gap = events.find(({ type }) => type === 'gap')
    expect(gap).toMatchObject({ type: 'gap' })
    // new-leader, elected, 400 renewals, lost: nothing is missing without being counted.
    expect(events.length - 1 + (gap?.type === 'gap' ? gap.missed : 0)).toBe(403)
  })

  test('every next() of events settles, also of two at once', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    const both = Promise.all([reader.next(), reader.next()])
    elector.start()
    await clock.advance(0)
    expect((await both).map(({ value }) => value?.type)).toEqual(['new-leader', 'elected'])
    await stopAndCheck(elector, clock)
  })

  test('leaves no listener on the signal it was given (C9)', async () => {
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
  test.each(nonsense)('an answer that makes no sense counts as none: %j (B6, D9, D10)', async (answer) => {
    for (const verb of ['acquire', 'renew', 'release', 'read'] as const) {
      const { clock, make, memory } = scene({ watch: false })
      const broken = { ...memory, [verb]: async () => answer }
      const elector = make({
        store: verb === 'acquire' || verb === 'renew' ? broken : ({ ...broken, watch: undefined } as never),
      })
      elector.start()
      await clock.advance(4 * lease)
      expect(elector.explain().lastErrors.length > 0 || verb === 'read' || verb === 'release').toBe(true)
      if (verb === 'acquire') expect(elector.isLeader()).toBe(false)
      await stopAndCheck(elector, clock)
    }
  })

  test.each([NaN, 0, -1, Infinity, undefined])('a grant valid for %s ms is not believed for it', async (validForMs) => {
    const { clock, make, memory } = scene()
    const distort =
      <A extends unknown[]>(verb: (...args: A) => Promise<object>) =>
      async (...args: A) =>
        ({ ...(await verb(...args)), validForMs }) as never
    const elector = make({ store: { ...memory, acquire: distort(memory.acquire), renew: distort(memory.renew) } })
    elector.start()
    // The record shows that the grant was made, and says for how long; no renewal is believed.
    await clock.advance(5_000)
    const { signal } = await elector.waitForLeadership()
    await clock.advance(5_000)
    expect(signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a watch that yields nonsense ends and is opened again', async () => {
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

  test('explain tells the state in words and as data', async () => {
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

  test('a wrong record in the store elects nobody and says why (D9)', async () => {
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
