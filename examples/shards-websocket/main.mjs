// Chat rooms over WebSockets: each room is in exactly one process, and its connections move when the room moves.
//
//   PORT=8081 node main.mjs & PORT=8082 node main.mjs &
//
// A client may connect to any process, at ws://127.0.0.1:8081/lobby. If the room is elsewhere, the connection is closed
// with code 4000 and the address of the owner as its reason. When the room moves, it is closed with code 1012, and the
// client connects again. So all members of a room are always in one process.
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'
import { WebSocketServer } from 'ws'

const port = Number(process.env.PORT ?? 8080)
/** The open connections of each room. */
const rooms = new Map()

const shards = createShards({
  store: fileStore({ directory: './leases' }),
  group: 'rooms',
  shards: 64,
  leaseDurationMs: 3_000,
  identity: `node-${port}`,
  metadata: { address: `ws://127.0.0.1:${port}` },
})

/**
 * Serves one connection until it closes, or until the room moves away.
 * @param {string} room
 * @param {import('ws').WebSocket} connection
 * @param {import('tenure/shards').HoldContext} context
 * @returns {Promise<void>}
 */
function serve(room, connection, { token, signal }) {
  const members = rooms.get(room) ?? new Set()
  rooms.set(room, members.add(connection))
  signal.addEventListener('abort', () => connection.close(1012, 'moved'), { once: true })
  connection.on('message', (/** @type {Buffer} */ data) => {
    // The token rises with every owner, so a client can tell which message is newer.
    for (const member of members) member.send(JSON.stringify({ room, token, text: data.toString('utf8') }))
  })
  return new Promise((resolve) => {
    connection.once('close', () => {
      members.delete(connection)
      if (members.size === 0) rooms.delete(room)
      resolve()
    })
    if (signal.aborted) connection.close(1012, 'moved')
    else connection.send(JSON.stringify({ room, token, joined: `node-${port}` }))
  })
}

await shards.start()
const server = new WebSocketServer({ port, host: '127.0.0.1' })
server.on('listening', () => console.log(`node-${port} listens on port ${port}`))
server.on('connection', (connection, request) => {
  const room = decodeURIComponent((request.url ?? '/').slice(1))
  connection.on('error', (error) => console.error(error.message))
  // The shard of the room is handed over only after all of its connections have closed.
  shards
    .hold(room, (context) => serve(room, connection, context))
    .catch((error) => connection.close(4000, error.owner?.metadata.address ?? ''))
})

process.once('SIGTERM', () => void stop())

async function stop() {
  await shards.stop()
  for (const connection of server.clients) connection.terminate()
  server.close()
}
