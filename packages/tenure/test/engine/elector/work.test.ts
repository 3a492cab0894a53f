import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Elector } from '../../../src/index.ts'
import { call, leading, lease, scene, stopAndCheck } from './elector-fixture.ts'

describe('work', () => {
  test('on stop isLeader is false at once, and the lease is renewed until work settles and then released (C6)', async () => {
    const { elector, clock, memory, leadership } = await leading()
    let finish = (): void => undefined
    leadership.waitUntil(new Promise<void>((resolve) => (finish = resolve)))
    const stopped = elector.stop()
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'stopped' })
    await clock.advance(25_000)
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(leadership.drainMs()).toBeGreaterThan(5_000)
    finish()
    await clock.advance(0)
    await stopped
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('stop does not release the lease when work does not settle in time (C6, C7)', async () => {
    const { elector, clock, memory, leadership } = await leading({ drainTimeoutMs: 8_000 })
    leadership.waitUntil(new Promise(() => undefined))
    const stopped = elector.stop()
    await clock.advance(8_000)
    await stopped
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(clock.timers).toBe(0)
  })

  test('unsettled work keeps its elector from campaigning after a loss, and explain shows this', async () => {
    const { elector, clock, link, leadership, events } = await leading()
    let finish = (): void => undefined
    leadership.waitUntil(new Promise<void>((resolve) => (finish = resolve)))
    link.fate('all', 'lose-request')
    await clock.advance(10_000)
    link.fate('all', 'pass')
    await clock.advance(10 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(events.filter(({ type }) => type === 'lost')).toEqual([])
    expect(elector.explain().summary).toMatch(/does not campaign, because 1 piece of its work has not settled/)
    finish()
    await clock.advance(1_000)
    expect(events.find(({ type }) => type === 'lost')).toMatchObject({ term: 1, reason: 'expired' })
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('work that fails is reported and does not end leadership (C7, C16)', async () => {
    const { elector, clock, leadership, events } = await leading()
    leadership.waitUntil(Promise.reject(new Error('out of paper')))
    await clock.advance(lease)
    const failure = events.find(({ type }) => type === 'error')
    expect(failure).toMatchObject({ error: { code: 'WORK_FAILED', cause: { message: 'out of paper' } } })
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
    expect(() => leadership.waitUntil(Promise.resolve())).toThrow(/ended: this elector was stopped/)
  })

  test.each(['stop', 'stepDown'] as const)(
    'work that an abort listener adds settles before the release: %s (C6)',
    async (how) => {
      const { elector, clock, memory, leadership } = await leading()
      let finish = (): void => undefined
      const flush = new Promise<void>((resolve) => (finish = resolve))
      leadership.signal.addEventListener('abort', () => leadership.waitUntil(flush))
      const ended = elector[how]()
      await clock.advance(1_000)
      expect((await memory.read('e', call))?.released).toBe(false)
      finish()
      await clock.advance(0)
      await ended
      expect((await memory.read('e', call))?.released).toBe(true)
      await stopAndCheck(elector, clock)
    },
  )

  test('waitUntil throws while the lease is being released', async () => {
    const { elector, clock, link, leadership } = await leading()
    const answer = link.hold('release')
    const stopped = elector.stop()
    await clock.advance(0)
    expect(() => leadership.waitUntil(Promise.resolve())).toThrow(/this elector was stopped/)
    answer()
    await clock.advance(0)
    await stopped
  })

  test.each(['stop', 'stepDown'] as const)('a call observer may call %s (C7)', async (how) => {
    for (const verb of ['acquire', 'renew'] as const) {
      const { clock, make, link } = scene()
      let ended: Promise<void> | undefined
      const elector: Elector = make({
        observer: { onCall: (report) => void (report.verb === verb && (ended ??= elector[how]())) },
      })
      elector.start()
      await clock.advance(0)
      if (verb === 'renew') link.fate('renew', 'lose-request')
      await clock.advance(60_000)
      await ended
      expect(ended).toBeDefined()
      await stopAndCheck(elector, clock)
    }
  })

  test('an observer that rejects is reported and does not affect the elector (C16)', async () => {
    const { clock, make } = scene()
    // Queries of database libraries behave like this. They are not native promises, and start when they are awaited.
    class Query {
      // oxlint-disable-next-line unicorn/no-thenable
      then(_: unknown, reject: (error: Error) => void) {
        reject(new Error('a bad query'))
      }
    }
    const answers: readonly (() => unknown)[] = [() => Promise.reject(new Error('a bad promise')), () => new Query()]
    for (const onEvent of answers) {
      const elector = make({ observer: { onEvent } })
      elector.start()
      await clock.advance(0)
      expect(elector.explain().lastErrors.at(-1)?.message).toMatch(/observer of "e" failed: a bad/)
      await stopAndCheck(elector, clock)
    }
  })

  test('work that ends because its signal aborted does not count as failed', async () => {
    const { elector, clock, leadership, events } = await leading()
    leadership.waitUntil(wait(60_000, undefined, { signal: leadership.signal }))
    leadership.waitUntil(
      new Promise((_, reject) => leadership.signal.addEventListener('abort', () => reject(leadership.signal.reason))),
    )
    await stopAndCheck(elector, clock)
    expect(events.filter(({ type }) => type === 'error')).toEqual([])
  })

  test('work that does not settle in time is reported with the exceeded limit', async () => {
    const { elector, clock, leadership, events } = await leading({ drainTimeoutMs: 1_500 })
    leadership.waitUntil(new Promise(() => undefined))
    await stopAndCheck(elector, clock)
    const error = events.find(({ type }) => type === 'error')
    expect(error).toMatchObject({
      error: {
        code: 'WORK_UNSETTLED',
        message: expect.stringContaining('1 piece of work has not settled within drainTimeoutMs (1500 ms)'),
      },
    })
    expect(elector.explain().summary).toMatch(/^Stopped: .* 1 piece of its work has not settled/)
  })

  test('an observer that throws or calls stop() itself does not affect the elector (C7, E7)', async () => {
    const { clock, make, memory } = scene()
    const elector: Elector = make({
      observer: {
        onEvent: (event) => {
          if (event.type === 'elected') void elector.stop()
          throw new Error('a bad listener')
        },
      },
    })
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of elector.events()) seen.push(event.type)
    })()
    elector.start()
    await clock.advance(0)
    await elector.stop()
    await reading
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(seen).toContain('error')
    expect(seen.filter((type) => type !== 'error')).toEqual(['new-leader', 'elected', 'lost'])
    expect(elector.explain().lastErrors.at(-1)?.message).toMatch(/observer of "e" failed: a bad/)
  })
})
