import { createServer, connect, type Server, type Socket } from 'node:net'
import { once } from 'node:events'
import { vi } from 'vitest'
import { askEtcd, memberKind } from './etcd.ts'
import type { Program } from './find-program.ts'
import { freePort } from './free-port.ts'
import { start, type RunningServer } from './server.ts'

/** A member of a cluster. */
export interface EtcdMember extends RunningServer {
  readonly id: string
}

/** Three members of etcd whose connections to each other can be cut. */
export interface EtcdCluster {
  readonly members: readonly EtcdMember[]
  /** Resolves with the member that leads, once two members agree on it. */
  leader(): Promise<EtcdMember>
  /** Cuts a member off from the others. Clients still reach it. */
  isolate(member: EtcdMember): void
  join(): void
  stop(): Promise<void>
}

interface Status {
  readonly header: { readonly member_id: string }
  readonly leader?: string
}

/** Starts three members, and waits until they have a leader. */
export async function startEtcdCluster(program: Program): Promise<EtcdCluster> {
  const network = new PeerNetwork()
  const ports = await Promise.all([0, 1, 2].map(() => freePort()))
  const links = await Promise.all(ports.map((port) => network.open(port)))
  const peers = links.map((port) => `http://127.0.0.1:${port}`)
  const servers = await Promise.all(
    ports.map((port, index) => {
      const kind = memberKind(`member ${index}`, program, () => ({
        name: `m${index}`,
        'listen-peer-urls': `http://127.0.0.1:${port}`,
        'initial-advertise-peer-urls': peers[index] ?? '',
        'initial-cluster': peers.map((url, at) => `m${at}=${url}`).join(','),
      }))
      return start(kind)
    }),
  )
  const statusOf = (server: RunningServer) => askEtcd<Status>(server, 'maintenance/status', {})
  const members = await Promise.all(
    servers.map(async (server) => {
      const { member_id: id } = (await statusOf(server)).header
      // Signals reach the current process.
      return Object.assign(Object.create(server) as RunningServer, { id })
    }),
  )
  /** Members disagree during an election. */
  const agreed = async () => {
    const leaderSeenBy = (member: EtcdMember) =>
      statusOf(member).then(
        ({ leader }) => leader,
        () => '0',
      )
    const leaders = await Promise.all(members.map(leaderSeenBy))
    return members.find(({ id }) => leaders.filter((seen) => seen === id).length >= 2)
  }
  return {
    members,
    leader: () => vi.waitUntil(agreed, { timeout: 20_000, interval: 20 }),
    isolate: (member) => network.isolate(links[members.findIndex(({ id }) => id === member.id)] ?? 0, member.id),
    join: () => network.join(),
    async stop() {
      await Promise.all(servers.map((server) => server.stop()))
      network.stop()
    },
  }
}

/** All connections between members. Each connection names its opener in its first bytes. */
class PeerNetwork {
  readonly #servers: Server[] = []
  readonly #connections = new Set<{ readonly link: number; from: string; readonly sockets: readonly Socket[] }>()
  #cut: { readonly link: number; readonly id: string } | undefined

  async open(target: number): Promise<number> {
    const link = await freePort()
    const server = createServer((client) => {
      const upstream = connect(target, '127.0.0.1')
      const connection = { link, from: '', sockets: [client, upstream] }
      this.#connections.add(connection)
      const end = () => {
        client.destroy()
        upstream.destroy()
        this.#connections.delete(connection)
      }
      for (const socket of connection.sockets) socket.on('error', end).on('close', end)
      client.once('data', (first) => {
        const sender = /^x-server-from: ([0-9a-f]+)/im.exec(first.toString('latin1'))?.[1]
        // Answers contain the same id in decimal.
        connection.from = sender === undefined ? '' : String(BigInt(`0x${sender}`))
        if (this.#isCut(connection)) return end()
        upstream.write(first)
        client.pipe(upstream)
      })
      upstream.pipe(client)
    })
    this.#servers.push(server.listen(link, '127.0.0.1'))
    await once(server, 'listening')
    return link
  }

  isolate(link: number, id: string): void {
    this.#cut = { link, id }
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

  #isCut({ link, from }: { readonly link: number; readonly from: string }): boolean {
    return this.#cut !== undefined && (link === this.#cut.link || from === this.#cut.id)
  }
}
