import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { Kvm, type KV, type KvOptions } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { programs } from './programs.ts'
import type { RunningServer, ServerKind, ServerLocation } from './server.ts'

const configIn = (directory: string) => join(directory, 'nats.conf')
const wallClockIn = (directory: string) => join(directory, 'wall-clock')

/** nats-server with JetStream, with every write on disk before it is answered. Its wall clock can be set. */
export const nats: ServerKind = natsWith()

/** nats-server with more settings, in the format of its configuration file. */
export function natsWith(more: (place: ServerLocation) => string = () => ''): ServerKind {
  return {
    name: 'nats-server',
    program: programs.nats,
    prepare: (place) => writeFileSync(configIn(place.directory), natsConfig(place, more(place))),
    args: ({ directory }) => ['--config', configIn(directory)],
    env: ({ directory }) => ({ TENURE_WALL_CLOCK: wallClockIn(directory) }),
    probe: ({ port }) => greeting(port),
    url: (port) => `nats://127.0.0.1:${port}`,
    stopSignal: 'SIGKILL',
  }
}

/** Returns the text of a configuration file. Every write is on disk before it is answered, unless `sync` says otherwise. */
export function natsConfig(
  { directory, port }: Pick<ServerLocation, 'directory' | 'port'>,
  more: string,
  sync = 'always',
): string {
  return `listen: "127.0.0.1:${port}"
jetstream { store_dir: "${join(directory, 'data')}", sync_interval: ${sync} }
${more}`
}

/** Makes a running server use another configuration. */
export async function reconfigure({ directory, pid }: RunningServer, config: string): Promise<void> {
  writeFileSync(configIn(directory), config)
  process.kill(pid, 'SIGHUP')
}

/** Sets the server's wall clock, in seconds ahead of the true time, and waits until the server reads it. */
export async function setNatsClock({ directory }: RunningServer, seconds: number): Promise<void> {
  writeFileSync(wallClockIn(directory), String(seconds))
  // The server reads the file every 20 ms.
  await delay(100)
}

/** A connection of a test, without any code of the library. */
export interface NatsClient {
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  bucket(name: string, options?: Partial<KvOptions>): Promise<KV>
  close(): Promise<void>
}

/** Connects to a server, and waits until its JetStream answers. */
export async function natsClient(servers: string | string[], options: object = {}): Promise<NatsClient> {
  const connection = await connect({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 50, ...options })
  const manager = await jetstreamManager(connection, { checkAPI: false })
  const kvm = new Kvm(connection)
  return {
    connection,
    manager,
    bucket: (name, settings) => kvm.create(name, settings),
    close: () => connection.close(),
  }
}

/** Resolves once the server has greeted a client, which it does before it asks for credentials. */
async function greeting(port: number): Promise<void> {
  const socket = createConnection(port, '127.0.0.1')
  try {
    const [text] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) })
    if (!/^INFO .*"jetstream":true/.test(String(text))) throw new Error(`nats-server answered ${String(text)}`)
  } finally {
    socket.destroy()
  }
}
