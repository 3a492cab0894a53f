import { expect, test } from 'vitest'
import { AsyncQueue } from '../src/async-queue.ts'

/** A clock with at most one timer, which is fired by the test. */
function clockOf() {
  const timers = new Set<() => void>()
  return {
    timers,
    setTimer(_: number, callback: () => void) {
      timers.add(callback)
      return { cancel: () => void timers.delete(callback) }
    },
    fire() {
      for (const callback of timers) callback()
    },
  }
}

/** Whether a promise has settled after one turn of the event loop. */
async function isSettled(promise: Promise<void>): Promise<boolean> {
  let settled = false
  void promise.then(() => (settled = true))
  await new Promise((resolve) => setImmediate(resolve))
  return settled
}

test('a queue that keeps all items returns them in order', () => {
  const box = new AsyncQueue<string>('all', 'first')
  box.put('second')
  box.put('third')
  expect([box.size, box.newest]).toEqual([3, 'third'])
  box.dropNewest()
  expect([box.take(), box.take(), box.take()]).toEqual(['first', 'second', undefined])
})

test('a queue that keeps the latest item returns only that item, and only once', () => {
  const box = new AsyncQueue<string>('latest', 'first')
  box.put('second')
  box.put('third')
  expect([box.size, box.take(), box.size, box.take()]).toEqual([1, 'third', 0, undefined])
})

test('a queue keeps an item that is undefined', () => {
  const box = new AsyncQueue<string | undefined>('latest')
  box.put(undefined)
  expect(box.size).toBe(1)
})

test('every waiting reader wakes when the first item is put or the queue ends', async () => {
  for (const act of ['put', 'end'] as const) {
    const box = new AsyncQueue<string>('all')
    const readers = [box.ready(), box.ready()]
    expect(await isSettled(Promise.race(readers))).toBe(false)
    box[act]('item')
    expect(await isSettled(Promise.all(readers).then(() => undefined))).toBe(true)
    expect(await isSettled(box.ready())).toBe(true)
  }
})

test('a reader that has taken the last item waits for the next one', async () => {
  const box = new AsyncQueue<string>('all', 'first')
  await box.ready()
  box.take()
  expect(await isSettled(box.ready())).toBe(false)
})

test('items that were put before a queue ended can still be read, and later items are dropped', () => {
  const box = new AsyncQueue<string>('all', 'first')
  box.end()
  box.put('late')
  expect([box.isEnded, box.take(), box.take()]).toEqual([true, 'first', undefined])
})

test('readyWithin resolves when its time has passed, and leaves no timer behind when an item comes first', async () => {
  const clock = clockOf()
  const box = new AsyncQueue<string>('latest')
  const silent = box.readyWithin(clock, 1_000)
  expect(await isSettled(silent)).toBe(false)
  clock.fire()
  expect(await isSettled(silent)).toBe(true)
  expect(box.size).toBe(0)
  const woken = box.readyWithin(clock, 1_000)
  box.put('item')
  expect(await isSettled(woken)).toBe(true)
  expect(clock.timers.size).toBe(0)
  expect(await isSettled(box.readyWithin(clock, 1_000))).toBe(true)
  expect(clock.timers.size).toBe(0)
})
