import { describe, expect, test } from 'vitest'
import { TokenBuckets, SubjectSlots, Turns } from '../../src/common/budgets.ts'

test('large requests take turns: one per subject at a time, and one per turn of the event loop', async () => {
  const turns = new Turns()
  const begun: string[] = []
  const take = (name: string) => turns.take(name.slice(0, 1), () => void begun.push(name))
  const [a1, a2, a3, b1] = [take('a1'), take('a2'), take('a3'), take('b1')]
  const turn = () => new Promise((resolve) => void setImmediate(resolve))
  expect(begun).toEqual([])
  await turn()
  expect(begun).toEqual(['a1'])
  await turn()
  await turn()
  expect(begun).toEqual(['a1', 'b1'])
  // A request that is canceled leaves the queue, and one that is done lets the next one begin.
  a2()
  a1()
  b1()
  await turn()
  await turn()
  expect(begun).toEqual(['a1', 'b1', 'a3'])
  a3()
  a3()
  take('a4')
  await turn()
  expect(begun.at(-1)).toBe('a4')
})

describe('Budget', () => {
  test('a budget is used up and refills with time', () => {
    const budget = new TokenBuckets(1 / 64, 20)
    for (let count = 0; count < 20; count++) expect(budget.take('a', 1, 0)).toBe(0)
    expect(budget.take('a', 1, 0)).toBe(64)
    expect(budget.take('b', 1, 0)).toBe(0)
    expect(budget.take('a', 1, 63)).toBe(1)
    expect(budget.take('a', 1, 64)).toBe(0)
    expect(budget.take('a', 1, 64)).toBe(64)
    // A budget never holds more than its size.
    for (let count = 0; count < 20; count++) expect(budget.take('a', 1, 1e9)).toBe(0)
    expect(budget.take('a', 1, 1e9)).toBe(64)
  })

  test('a full budget allows one larger request and is then in debt', () => {
    const budget = new TokenBuckets(1 / 64, 20)
    expect(budget.take('a', 50, 0)).toBe(0)
    expect(budget.take('a', 1, 0)).toBe(31 * 64)
    expect(budget.take('a', 50, 50 * 64 - 1)).toBe(1)
    expect(budget.take('a', 50, 50 * 64)).toBe(0)
  })

  test('a budget can be charged after the fact', () => {
    const budget = new TokenBuckets(1 / 64, 20)
    budget.charge('a', 25, 0)
    expect(budget.take('a', 1, 0)).toBe(6 * 64)
    expect(budget.take('a', 1, 6 * 64)).toBe(0)
  })

  test('a budget remembers only the subjects that used it most recently', () => {
    const budget = new TokenBuckets(1, 1)
    for (let at = 0; at < 25_000; at++) {
      budget.take(`subject-${at}`, 1, 0)
      // A subject that keeps asking is not forgotten.
      if (at % 5_000 === 0) expect(budget.take('greedy', 1, 0)).toBe(at === 0 ? 0 : 1)
    }
    expect(budget.size).toBe(10_000)
  })
})

test('SubjectSlots limits the slots of one subject and of all subjects, and forgets slots that were released', () => {
  const places = new SubjectSlots(2, 3)
  const leave = [places.enter('a'), places.enter('a')]
  expect(places.enter('a')).toBeUndefined()
  leave.push(places.enter('b'))
  expect(places.enter('c')).toBeUndefined()
  for (const one of leave) one?.()
  expect(places.size).toBe(0)
  expect(places.enter('a')).toBeDefined()
})
