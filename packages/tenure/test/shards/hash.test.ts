import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { shardHashName, shardOf } from '../../src/shards/hash.ts'

const guide = readFileSync(join(import.meta.dirname, '../../../../docs/guide/shards.md'), 'utf8')

test('the hash maps each key of the test vectors in docs/guide/shards.md to its shard', () => {
  expect(guide).toContain(`\`${shardHashName}\``)
  // An implementation in another language computed these.
  const rows = [...guide.matchAll(/^\| `(.+)` \| (\d+) \| (\d+) \| (\d+) \|$/gm)]
  expect(rows).toHaveLength(6)
  for (const [, key = '', ...shards] of [...rows, ['', '', '11', '11', '23']]) {
    expect(
      [256, 512, 100].map((count) => String(shardOf(key, count))),
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
