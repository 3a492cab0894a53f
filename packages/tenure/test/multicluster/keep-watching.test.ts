import { expect, onTestFinished, test } from 'vitest'
import { keepWatching } from '../../src/multicluster/keep-watching.ts'
import { memoryResources } from '../../src/multicluster/memory-resources.ts'
import { fakeClock } from '../../../testing/src/index.ts'

const key = { namespace: 'n', name: 'a' }

test('keepWatching reopens a watch after growing pauses, and resets the pause after a watch that lasted', async () => {
  const clock = fakeClock()
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const opened: number[] = []
  const reported: unknown[] = []
  const lasting = new Set([8])
  const resources = {
    // oxlint-disable-next-line require-yield
    async *watch() {
      opened.push(clock.monotonicMs())
      if (lasting.has(opened.length)) await new Promise<void>((resolve) => clock.setTimer(6_000, resolve))
      throw new Error(`watch ${opened.length}`)
    },
  }
  const changes = keepWatching(resources, {}, { clock, signal: ending.signal, report: (error) => reported.push(error) })
  void changes.next()
  await clock.advance(60_000)
  const pauses = opened.slice(1).map((openedMs, index) => openedMs - (opened[index] ?? NaN))
  const within = (pauseMs = NaN, longestMs: number) => {
    expect(pauseMs).toBeGreaterThanOrEqual(longestMs / 2)
    expect(pauseMs).toBeLessThanOrEqual(longestMs)
  }
  for (const [index, longestMs] of [200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries())
    within(pauses[index], longestMs)
  // The eighth watch lasted for six seconds.
  within((pauses[7] ?? NaN) - 6_000, 200)
  within(pauses[8], 400)
  expect(reported.slice(0, 2)).toEqual([new Error('watch 1'), new Error('watch 2')])
})

test('keepWatching begins each watch with the full list and ends only with its signal', async () => {
  const clock = fakeClock()
  const ending = new AbortController()
  const resources = memoryResources(() => 'uid')
  const reported: unknown[] = []
  const report = (error: unknown) => reported.push(error)
  const changes = keepWatching(resources, key, { clock, signal: ending.signal, report })
  expect((await changes.next()).value).toEqual({ type: 'all', resources: [] })
  const created = await resources.create(key, { requests: {} }, undefined, { signal: ending.signal })
  expect((await changes.next()).value).toEqual({ type: 'put', resource: created })
  const again = changes.next()
  // Restoring a backup ends all watches.
  resources.restore([])
  await clock.advance(200)
  expect((await again).value).toEqual({ type: 'all', resources: [] })
  expect(reported).toEqual([undefined])
  const last = changes.next()
  ending.abort()
  expect(await last).toEqual({ done: true, value: undefined })
  expect(clock.timers).toBe(0)
})

test('keepWatching ends during a pause without waiting for it', async () => {
  const clock = fakeClock()
  const ending = new AbortController()
  const resources = {
    async *watch() {
      yield { type: 'all', resources: [] } as const
    },
  }
  const changes = keepWatching(resources, {}, { clock, signal: ending.signal })
  await changes.next()
  const next = changes.next()
  await clock.advance(10)
  ending.abort()
  expect(await next).toEqual({ done: true, value: undefined })
  expect(clock.timers).toBe(0)
})
