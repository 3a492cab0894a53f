// A member of a group of shards. Writes what it owns, with the clock that all processes of the machine share.
import { appendFileSync } from 'node:fs'
import { createShards } from 'tenure/shards'
import { openStore } from 'tenure/stores'

/** @type {import('./fleet.ts').MemberOptions} */
const { url, group, identity, logPath, shards: count, leaseDurationMs } = JSON.parse(process.argv[2] ?? '{}')
const store = await openStore(url)
const now = () => Number(process.hrtime.bigint() / 1_000n)

const shards = createShards({
  store,
  group,
  shards: count,
  identity,
  leaseDurationMs,
  drainTimeoutMs: 5_000,
  work: ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
})

const sample = () => {
  // The process may be paused at any point, so what it owns was true at some moment between the two times.
  const beforeUs = now()
  const { owned, isCoordinator } = shards.status()
  const afterUs = now()
  const tokens = owned.map(({ shard, token }) => [shard, token])
  appendFileSync(logPath, `${JSON.stringify({ beforeUs, afterUs, owned: tokens })}\n`)
  process.send?.({ owned: owned.length, isCoordinator })
}
const timer = setInterval(sample, 25)

process.on('SIGTERM', () => void stop())

async function stop() {
  await shards.stop()
  sample()
  clearInterval(timer)
  await store.close?.()
  process.disconnect()
}
await shards.start()
