// Processes that share 64 shards of chat rooms: any of them takes a request, and forwards it to the owner of the room.
//
//   PORT=8081 node main.mjs & PORT=8082 node main.mjs & PORT=8083 node main.mjs &
//   curl http://127.0.0.1:8081/rooms/lobby
//
// Each room counts its visits in the memory of its owner. When the owner leaves or crashes, another process owns the
// room, with a higher token, and counts from the start.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'

const port = Number(process.env.PORT ?? 8080)
/** The rooms of each shard that this process owns: visits by the name of the room. */
const visitsByShard = new Map()

const shards = createShards({
  store: fileStore({ directory: './leases' }),
  group: 'rooms',
  shards: 64,
  leaseDurationMs: 3_000,
  identity: `node-${port}`,
  metadata: { address: `http://127.0.0.1:${port}` },
  async work({ shard, signal }) {
    visitsByShard.set(shard, new Map())
    // The shard is handed over when this function returns, so keep none of its data after that.
    if (!signal.aborted) await once(signal, 'abort')
    visitsByShard.delete(shard)
  },
})

/**
 * Answers for a room that this process owns, or refuses with the token that it knows.
 * @param {string} room
 */
function answer(room) {
  const owned = shards.owns(room)
  const visits = owned && visitsByShard.get(owned.shard)
  if (!visits) return { status: 409, body: { room, error: 'NOT_OWNER', token: shards.ownerOf(room)?.token } }
  visits.set(room, (visits.get(room) ?? 0) + 1)
  return { status: 200, body: { room, owner: `node-${port}`, token: owned.token, visits: visits.get(room) } }
}

/**
 * Lets the owner answer. What this process knows about the owner can be stale, so a refusal is tried once more.
 * @param {string} room
 */
async function route(room) {
  for (const isLast of [false, true]) {
    const owner = shards.ownerOf(room)
    if (owner?.isMe) {
      const answered = answer(room)
      if (answered.status === 200 || isLast) return answered
    } else if (owner) {
      const forwarded = await forward(owner.metadata.address, room)
      if (forwarded && (forwarded.status !== 409 || isLast)) return forwarded
    }
    if (!isLast) await new Promise((resolve) => setTimeout(resolve, 200))
  }
  return { status: 503, body: { room, error: 'NO_OWNER' } }
}

/**
 * @param {unknown} address
 * @param {string} room
 */
async function forward(address, room) {
  try {
    const url = `${String(address)}/rooms/${encodeURIComponent(room)}`
    const response = await fetch(url, { headers: { 'x-forwarded': 'true' }, signal: AbortSignal.timeout(1_000) })
    return { status: response.status, body: await response.json() }
  } catch {
    return undefined // The owner has crashed. Another process will own the room soon.
  }
}

const server = createServer((request, response) => void serve(request, response))

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 */
async function serve(request, response) {
  const room = decodeURIComponent((request.url ?? '').replace(/^\/rooms\//, ''))
  // A forwarded request is never forwarded again, so it cannot go in circles.
  const { status, body } = request.headers['x-forwarded'] ? answer(room) : await route(room)
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

await shards.start()
server.listen(port, '127.0.0.1', () => console.log(`node-${port} listens on port ${port}`))

process.once('SIGTERM', () => void stop())

async function stop() {
  await shards.stop()
  server.close()
  server.closeAllConnections()
}
