import { once } from 'node:events'
import { connect } from 'node:net'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** Redis, with every write on disk before it is answered. */
export const redis: ServerKind = {
  name: 'Redis',
  program: programs.redis,
  args: ({ directory, port }) => {
    const settings = { bind: '127.0.0.1', port, dir: directory, save: '', appendonly: 'yes', appendfsync: 'always' }
    return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  },
  async probe({ port }) {
    const socket = connect(port, '127.0.0.1')
    try {
      socket.write('PING\r\n')
      const [reply] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) })
      if (String(reply) !== '+PONG\r\n') throw new Error(`Redis answers ${String(reply)}`)
    } finally {
      socket.destroy()
    }
  },
  url: (port) => `redis://127.0.0.1:${port}`,
  stopSignal: 'SIGTERM',
}
