import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { vi } from 'vitest'
import { freePort } from './free-port.ts'
import { natsClient, natsWith } from './nats.ts'
import { start, type RunningServer } from './server.ts'

/** A server of a cluster. */
export interface NatsMember extends RunningServer {
  readonly name: string
}

/** Three servers of NATS whose connections to each other can be cut. */
export interface NatsCluster {
  readonly members: readonly NatsMember[]
  /** The URL of all members, without a bucket. */
  readonly url: string
  /** Resolves with the member that leads the stream of a bucket. */
  leaderOf(bucket: string): Promise<NatsMember>
  /** Cuts a member off from the others. Clients still reach it. */
  isolate(member: NatsMember): void
  join(): void
  stop(): Promise<void>
}

/** Starts three members, and waits until they have a leader. */
export async function startNatsCluster(): Promise<NatsCluster> {
  const network = new RouteNetwork()
  const ports = await Promise.all([0, 1, 2].map(() => freePort()))
  const links = await Promise.all(ports.map((port, index) => network.open(port, `n${index}`)))
  const servers = await Promise.all(
    ports.map((port, index) =>
      start(
        natsWith(
          () => `
            server_name: n${index}
            cluster {
              name: tenure, listen: "127.0.0.1:${port}", advertise: "127.0.0.1:${links[index]}", pool_size: -1
              routes: [${links.map((link) => `"nats://127.0.0.1:${link}"`).join(', ')}]
            }`,
        ),
      ),
    ),
  )
  const members = servers.map((server, index) =>
    Object.assign(Object.create(server) as RunningServer, { name: `n${index}` }),
  )
  const url = `nats://${members.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
  const client = await natsClient(members.map((member) => member.url))
  // The members need some seconds to elect the leader that creates streams.
  await vi.waitUntil(() => client.manager.getAccountInfo().then(Boolean, () => false), {
    timeout: 30_000,
    interval: 50,
  })
  return {
    members,
    url,
    leaderOf: (bucket) =>
      vi.waitUntil(
        async () => {
          const { cluster } = await client.manager.streams.info(`KV_${bucket}`)
          return members.find(({ name }) => name === cluster?.leader)
        },
        { timeout: 30_000, interval: 50 },
      ),
    isolate: ({ name }) => network.isolate(name),
    join: () => network.join(),
    async stop() {
      await client.close()
      await Promise.all(servers.map((server) => server.stop()))
      network.stop()
    },
  }
}

interface RouteConnection {
  readonly target: string
  /** Unknown until the opener has sent its name. */
  from: string
  readonly sockets: readonly Socket[]
}

/** All connections between members. Each member sends its name when it opens one. */
class RouteNetwork {
  readonly #servers: Server[] = []
  readonly #connections = new Set<RouteConnection>()
  #cut: string | undefined

  async open(port: number, target: string): Promise<number> {
    const link = await freePort()
    const server = createServer((client) => {
      const upstream = connect(port, '127.0.0.1')
      const connection: RouteConnection = { target, from: '', sockets: [client, upstream] }
      this.#connections.add(connection)
      const end = () => {
        client.destroy()
        upstream.destroy()
        this.#connections.delete(connection)
      }
      for (const socket of connection.sockets) socket.on('error', end).on('close', end)
      let first = ''
      const examine = (chunk: Buffer) => {
        first += chunk.toString('latin1')
        const from = /"server_name":"(n\d)"/.exec(first)?.[1]
        if (from === undefined) return
        client.off('data', examine)
        connection.from = from
        if (this.#isCut(connection)) return end()
        upstream.write(Buffer.from(first, 'latin1'))
        client.pipe(upstream)
      }
      client.on('data', examine)
      upstream.pipe(client)
      if (this.#isCut(connection)) end()
    })
    this.#servers.push(server.listen(link, '127.0.0.1'))
    await once(server, 'listening')
    return link
  }

  isolate(name: string): void {
    this.#cut = name
    for (const connection of this.#connections) {
      if (this.#isCut(connection)) for (const socket of connection.sockets) socket.destroy()
    }
  }

  join(): void {
    this.#cut = undefined
  }

  stop(): void {
    for (const server of this.#servers) server.close()
    for (const { sockets } of this.#connections) for (const socket of sockets) socket.destroy()
  }

  #isCut({ target, from }: RouteConnection): boolean {
    return this.#cut !== undefined && (target === this.#cut || from === this.#cut)
  }
}
