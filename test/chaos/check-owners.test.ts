import { expect, test } from 'vitest'
import { checkOwners, type OwnerSample } from './check-owners.ts'

const sample = (atMs: number, token: number): OwnerSample => ({
  beforeUs: atMs * 1_000,
  afterUs: atMs * 1_000 + 10,
  owned: [[0, token]],
})

test('two owners whose times overlap are a violation', () => {
  const logs = new Map([
    ['a', [sample(0, 1), sample(100, 1)]],
    ['b', [sample(50, 2), sample(150, 2)]],
  ])
  expect(checkOwners(logs).violations).toHaveLength(1)
})

test('a token that does not rise is a violation', () => {
  const logs = new Map([
    ['a', [sample(0, 2), sample(100, 2)]],
    ['b', [sample(200, 2), sample(250, 2)]],
  ])
  expect(checkOwners(logs).violations).toHaveLength(1)
})

test('the checker accepts owners that follow each other with rising tokens', () => {
  const logs = new Map([
    ['a', [sample(0, 1), sample(100, 1)]],
    ['b', [sample(200, 2), sample(250, 2)]],
  ])
  const { violations, grants, longestFreeMs } = checkOwners(logs)
  expect(violations).toEqual([])
  expect(grants).toBe(2)
  expect(longestFreeMs).toBeCloseTo(100, 0)
})
