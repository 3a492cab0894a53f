// Measures in one process, without a server: how owns(key) compares with isLeader(), and the memory that shards and
// held keys take.
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Elector, memoryStore } from 'tenure'
import { createShards } from 'tenure/shards'

const [rounds = 0, calls = 0, keys = 0] = process.argv.slice(2).map(Number)

/** @param {number} count */
async function started(count) {
  const store = memoryStore()
  const work = (/** @type {{ signal: AbortSignal }} */ { signal }) =>
    new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  const shards = createShards({ store, group: 'bench', shards: count, leaseDurationMs: 15_000, work, log: false })
  const changes = shards.changes()
  await shards.start()
  let owned = shards.status().owned.length
  while (owned < count) {
    await changes.next()
    owned = shards.status().owned.length
  }
  return shards
}

function heap() {
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const elector = new Elector({ store: memoryStore(), election: 'bench' })
elector.start()
await elector.waitForLeadership()

const few = await started(8)
const before = heap()
const many = await started(512)
const withShards = heap()
// The group itself costs the same for 8 shards and 512.
const one = await started(8)
const perGroup = heap() - withShards
const bytesPerShard = (withShards - before - perGroup) / (512 - 8)

const names = Array.from({ length: keys }, (_, key) => `key-${key}`)
const beforeHolds = heap()
const holds = names.map((name) =>
  many.hold(name, ({ signal }) => {
    // All holds of a shard share one signal, and Node.js warns of more than ten listeners.
    setMaxListeners(0, signal)
    return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  }),
)
await new Promise((resolve) => setImmediate(resolve))
const bytesPerKey = (heap() - beforeHolds) / keys

let yes = 0
const results = []
for (let round = 0; round < rounds; round++) {
  // Leases are renewed between rounds.
  await sleep(10)
  const start = performance.now()
  for (let call = 0; call < calls; call++) if (elector.isLeader()) yes += 1
  const middle = performance.now()
  for (let call = 0; call < calls; call++) if (many.owns(names[call % names.length] ?? '')) yes += 1
  const end = performance.now()
  results.push({ isLeaderNs: ((middle - start) / calls) * 1e6, ownsNs: ((end - middle) / calls) * 1e6 })
}
// The count is used. Otherwise the compiler could drop the loops.
if (yes !== 2 * rounds * calls) throw new Error(`${yes} of ${2 * rounds * calls} answers were positive`)
console.log(JSON.stringify({ results, bytesPerShard, bytesPerKey, held: holds.length }))
for (const shards of [few, one, many]) void shards.stop()
process.exit(0)
