import { expect, test } from 'vitest'
import { shardHashName, shardOf } from '../../src/shards/hash.ts'

test('the hash maps each key of the test vectors to its shard', () => {
  expect(shardHashName).toBe('fnv1a32-fmix')
  // The key, and its shard of 256, 512, and 100. An implementation in another language computed these.
  const vectors: readonly (readonly [string, number, number, number])[] = [
    ['', 11, 11, 23],
    ['a', 179, 435, 15],
    ['chat-42', 66, 66, 22],
    ['tenant/0001', 152, 408, 52],
    ['Zürich', 151, 407, 31],
    ['日本', 31, 287, 35],
    ['😀', 10, 10, 42],
  ]
  for (const [key, ...shards] of vectors) {
    expect(
      [256, 512, 100].map((count) => shardOf(key, count)),
      key,
    ).toEqual(shards)
  }
})

test('consecutive keys are spread evenly over the shards', () => {
  const loads = Array.from({ length: 256 }, () => 0)
  for (let key = 0; key < 25_600; key += 1) {
    const shard = shardOf(`chat-${key}`, 256)
    loads[shard] = (loads[shard] ?? 0) + 1
  }
  // Random placement has a mean of 100 and a standard deviation of 10.
  expect(Math.min(...loads)).toBeGreaterThan(55)
  expect(Math.max(...loads)).toBeLessThan(145)
})
