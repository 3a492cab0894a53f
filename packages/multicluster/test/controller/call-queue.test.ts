import { expect, test } from 'vitest'
import { Queue } from '../../src/calls/call-queue.ts'

const { signal } = new AbortController()

test('the queue runs urgent work first, does not starve other work, and respects its concurrency limit', async () => {
  const queue = new Queue(1)
  const order: string[] = []
  const work = (name: string) => async () => {
    expect(queue.running).toBe(1)
    await Promise.resolve()
    order.push(name)
  }
  const all = [
    queue.run(false, signal, work('look 0')),
    ...Array.from({ length: 6 }, (_, index) => queue.run(false, signal, work(`look ${index + 1}`))),
    ...Array.from({ length: 6 }, (_, index) => queue.run(true, signal, work(`renewal ${index + 1}`))),
  ]
  expect(queue.waiting).toBe(12)
  await Promise.all(all)
  expect(order.slice(0, 8)).toEqual([
    'look 0',
    'renewal 1',
    'renewal 2',
    'renewal 3',
    'renewal 4',
    'look 1',
    'renewal 5',
    'renewal 6',
  ])
  expect(order).toHaveLength(13)
})

test('the queue drops work whose signal has aborted', async () => {
  const queue = new Queue(1)
  let finish = (): void => undefined
  const first = queue.run(true, signal, () => new Promise<void>((resolve) => (finish = resolve)))
  const leaving = new AbortController()
  const second = queue.run(true, leaving.signal, async () => expect.unreachable())
  leaving.abort(new Error('gone'))
  await expect(second).rejects.toThrow('gone')
  finish()
  await first
  expect([queue.running, queue.waiting]).toEqual([0, 0])
})
