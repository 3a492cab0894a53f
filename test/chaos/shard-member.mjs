// One process of a group of shards. It logs which shards it believes to own or still works on, on the clock that all
// processes share, and writes to a fenced resource for random keys.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

/** @type {import('./shard-fleet.ts').ShardMemberOptions} */
const options = JSON.parse(process.argv[2] ?? '{}')
const {
  url,
  group,
  identity,
  logPath,
  shards: count,
  keys,
  leaseDurationMs,
  releaseOnCrash,
  settleMs,
  library,
} = options
/** @param {string} name @param {string} file */
const load = (name, file) => import(library ? pathToFileURL(`${library}/${file}`).href : name)
/** @type {typeof import('tenure/shards')} */
const { createShards } = await load('tenure/shards', 'shards/index.js')
/** @type {typeof import('tenure/stores')} */
const { openStore } = await load('tenure/stores', 'stores/index.js')
const store = await openStore(url)
const logFile = openSync(logPath, 'a')
const nowUs = () => Number(process.hrtime.bigint() / 1_000n)
/** @param {import('./shard-fleet.ts').ShardMessage} message */
const tell = (message) => void (process.connected && process.send?.(message))

/** The work that has not settled. @type {Map<number, import('tenure/shards').ShardContext>} */
const working = new Map()

const shards = createShards({
  store,
  group,
  shards: count,
  identity,
  leaseDurationMs,
  releaseOnCrash,
  drainTimeoutMs: 5_000,
  log: false,
  observer: {
    onShard(change) {
      if (change.type === 'error') tell({ error: String(change.error) })
      if (change.type === 'gained') soon ??= setImmediate(sample)
    },
  },
  async work(context) {
    const { shard, signal } = context
    working.set(shard, context)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    const isSlow = Math.random() < 0.02
    await delay(settleMs ?? Math.random() * (isSlow ? 1_500 : 20))
    working.delete(shard)
  },
})

/** @type {NodeJS.Immediate | undefined} */
let soon
let last = '[]'
let wasCoordinator = false
function sample() {
  soon = undefined
  const fromUs = nowUs()
  const { owned, isCoordinator } = shards.status()
  // The first status has looked at the clock, and ended a leadership that has expired.
  const hasSeat = shards.status().seat !== undefined
  const tokens = new Map(owned.map(({ shard, token }) => [shard, token]))
  // Work believes its signal. While the process holds its seat, work that has not settled keeps the shard from others.
  for (const [shard, { signal, token }] of working) if (hasSeat || !signal.aborted) tokens.set(shard, token)
  const text = JSON.stringify([...tokens].toSorted(([one], [other]) => one - other))
  const toUs = nowUs()
  writeSync(logFile, `${fromUs} ${toUs}${text === last ? '' : ` ${text}`}\n`)
  if (text !== last || isCoordinator !== wasCoordinator) {
    tell({ owned: owned.map(({ shard, token }) => [shard, token]), isCoordinator })
  }
  last = text
  wasCoordinator = isCoordinator
}

/** Only the fence can refuse the write of a process that was paused after it asked. */
async function write() {
  const key = `key-${Math.floor(Math.random() * keys)}`
  if (!shards.owns(key)) return
  await shards
    .hold(key, async ({ shard, token }) => {
      await delay(5)
      tell({ write: { shard, token } })
    })
    .catch(() => undefined)
}

const timers = [setInterval(sample, 50), setInterval(() => void write(), 50)]
process.on('message', () => {
  let owned = 0
  for (let key = 0; key < keys; key += 1) if (shards.owns(`key-${key}`)) owned += 1
  tell({ keys: owned })
})

async function leave() {
  await shards.stop()
  sample()
  for (const timer of timers) clearInterval(timer)
  await store.close?.()
  process.disconnect()
}

process.once('SIGTERM', () => void leave())
process.once('disconnect', () => shards.status().phase === 'stopped' || process.exit(1))
tell({ isReady: true })
await shards.start().catch((error) => {
  // It may be asked to leave before it has joined.
  if (error.code !== 'STOPPED') throw error
})
