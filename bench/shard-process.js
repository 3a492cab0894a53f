// One process of a group of shards for bench/shards.js. It reports what it gains and loses, on the machine's clock.
import { setMaxListeners } from 'node:events'
import { hrtime } from 'node:process'
import { createShards } from 'tenure/shards'
import { openStore } from 'tenure/stores'

const [, , url = '', group = '', identity = '', count, leaseDurationMs, keys, releaseOnCrash] = process.argv
const store = await openStore(url)
const nowMs = () => Number(hrtime.bigint()) / 1e6

const shards = createShards({
  store,
  group,
  identity,
  shards: Number(count),
  leaseDurationMs: Number(leaseDurationMs),
  releaseOnCrash: releaseOnCrash === 'true',
  log: false,
  observer: {
    onEvent(event) {
      if (event.type === 'elected') process.send?.({ event: 'coordinates', atMs: nowMs() })
    },
    onShard(change) {
      if (change.type !== 'gained' && change.type !== 'revoked' && change.type !== 'lost') return
      process.send?.({ event: change.type, shard: change.shard, atMs: nowMs() })
    },
  },
})

/** Holds every key whose shard this process owns until the shard moves away. */
function holdKeys() {
  let held = 0
  for (let key = 0; key < Number(keys); key += 1) {
    const name = `key-${key}`
    if (!shards.owns(name)) continue
    held += 1
    const untilMoved = (/** @type {{ signal: AbortSignal }} */ { signal }) => {
      // All holds of a shard share one signal, and Node.js warns of more than ten listeners.
      setMaxListeners(0, signal)
      return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    }
    shards.hold(name, untilMoved).catch(() => undefined)
  }
  return held
}

async function leave() {
  process.send?.({ event: 'leaves', atMs: nowMs() })
  await shards.stop()
  await store.close?.()
  process.disconnect()
}

process.on('message', (message) => {
  if (message === 'hold') process.send?.({ event: 'held', count: holdKeys(), atMs: nowMs() })
  if (message === 'leave') void leave()
})
process.on('disconnect', () => process.exit())
await shards.start()
