import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

type Settings = Readonly<Record<string, string | number>>

/** Redis, with every write on disk before it is answered. */
export const redis: ServerKind = redisWith({})

/** Redis with other settings, in the format of `redis.conf`. */
export function redisWith(own: Settings): ServerKind {
  return {
    name: 'Redis',
    program: programs.redis,
    args: ({ directory, port }) => {
      const place = { bind: '127.0.0.1', port, dir: directory }
      const settings = { ...place, save: '', appendonly: 'yes', appendfsync: 'always', 'repl-diskless-sync-delay': 0 }
      return Object.entries({ ...settings, ...own }).flatMap(([name, value]) => [
        `--${name}`,
        ...String(value).split(' '),
      ])
    },
    probe: ({ port }) => ping(port),
    url: (port) => `redis://127.0.0.1:${port}`,
    stopSignal: 'SIGTERM',
    // Servers of a cluster reach each other at this second port.
    ...('cluster-enabled' in own && { secondPort: 10_000 }),
  }
}

/**
 * A single sentinel that decides when the Redis at this port, named `mymaster`, is replaced by its replica. `own` may
 * add to its configuration.
 */
export function sentinelFor(primaryPort: number, own: readonly string[] = []): ServerKind {
  return {
    ...redis,
    name: 'Sentinel',
    // The sentinel writes its decisions to this file.
    prepare: ({ directory, port }) => {
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${directory}`,
        `sentinel monitor mymaster 127.0.0.1 ${primaryPort} 1`,
        'sentinel down-after-milliseconds mymaster 1000',
        'sentinel failover-timeout mymaster 1000',
        ...own,
      ]
      writeFileSync(join(directory, 'sentinel.conf'), lines.join('\n'))
    },
    args: ({ directory }) => [join(directory, 'sentinel.conf'), '--sentinel'],
    url: (port) => `redis://127.0.0.1:${port}?sentinel=mymaster`,
  }
}

async function ping(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  try {
    socket.write('PING\r\n')
    const [reply] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) })
    // A replica also answers before it has synchronized with its primary.
    if (!/^(\+PONG|-NOAUTH|-MASTERDOWN)/.test(String(reply))) throw new Error(`Redis answered ${String(reply)}`)
  } finally {
    socket.destroy()
  }
}
