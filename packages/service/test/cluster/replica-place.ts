import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { freePort } from '../../../../test/servers/free-port.ts'
import { askEtcd, base64 } from '../../../../test/servers/etcd.ts'
import { vi } from 'vitest'
import type { RunningServer } from '../../../../test/servers/server.ts'
import { startService, type RunningService } from '../../src/index.ts'
import type { Entry, Served, ServeOptions } from '../served.ts'

interface Replica {
  readonly advertise: string
  running: RunningService | undefined
}

const size = 3

/** Services of three replicas each, on one etcd. */
export class ReplicaPlace {
  readonly #server: () => RunningServer
  readonly #open = new Set<ReplicatedService>()

  constructor(server: () => RunningServer) {
    this.#server = server
  }

  serve = async (options: ServeOptions, entry: Entry): Promise<Served> => {
    const service = new ReplicatedService(this.#server(), options, entry)
    try {
      await service.start()
    } catch (error) {
      await service.close()
      throw error
    }
    this.#open.add(service)
    const close = () => {
      this.#open.delete(service)
      return service.close()
    }
    return {
      url: service.url,
      clusterId: service.clusterId,
      // Those of now: one that was replaced has another.
      get entries() {
        return service.entries
      },
      reload: () => service.reload(),
      close,
    }
  }

  /** Stops and starts the active one of each service. With a change after it, no reader misses anything by that. */
  async replaceActive({ withChange }: { readonly withChange: boolean }): Promise<void> {
    for (const service of this.#open) {
      await service.replaceActive()
      if (withChange) await service.change()
    }
  }
}

class ReplicatedService {
  readonly #etcd: RunningServer
  readonly #options: ServeOptions
  readonly #prefix = randomUUID()
  readonly #front: Front
  #replicas: Replica[] = []

  constructor(etcd: RunningServer, options: ServeOptions, entry: Entry) {
    this.#etcd = etcd
    this.#options = options
    const one = randomInt(size)
    this.#front = new Front(() => {
      const there = this.#replicas.filter(({ running }) => running)
      return (entry === 'one' ? this.#replicas[one] : there[randomInt(there.length)])?.running?.url
    })
  }

  get url(): string {
    const { protocol } = new URL(this.entries[0] ?? '')
    return `${protocol}//127.0.0.1:${this.#front.port}`
  }

  get clusterId(): string {
    return this.#replicas[0]?.running?.clusterId ?? ''
  }

  get entries(): string[] {
    return this.#replicas.flatMap(({ running }) => running?.url ?? [])
  }

  async start(): Promise<void> {
    await this.#front.listen()
    for (let count = 0; count < size; count++) {
      const replica = { advertise: `http://127.0.0.1:${await freePort()}`, running: undefined }
      this.#replicas.push(replica)
      await this.#start(replica)
    }
    await this.#active()
  }

  async #start(replica: Replica): Promise<void> {
    const store = `${this.#etcd.url.replace('http:', 'etcd:')}/${this.#prefix}`
    replica.running = await startService({ ...this.#options, port: 0, store, advertise: replica.advertise })
  }

  /** The one that had the lease last. */
  async #holder(): Promise<Replica | undefined> {
    const key = base64(`${this.#prefix}/service:leases/active/record`)
    const { kvs = [] } = await askEtcd<{ kvs?: { value: string }[] }>(this.#etcd, 'kv/range', { key })
    const text = Buffer.from(kvs[0]?.value ?? '', 'base64').toString()
    return this.#replicas.find(({ advertise }) => text.includes(`"${advertise}"`))
  }

  async #active(): Promise<Replica> {
    return vi.waitUntil(() => this.#holder(), { timeout: 30_000 })
  }

  async replaceActive(): Promise<void> {
    const active = await this.#active()
    const { running } = active
    active.running = undefined
    await running?.close()
    await this.#start(active)
  }

  /**
   * Makes a change, and waits until every replica has heard of it. Whoever has just started tells those of a gap who come
   * with an older cursor of another one.
   */
  async change(): Promise<void> {
    const group = `${this.entries[0] ?? ''}/v1/groups/change`
    const post = (verb: string, body: object) =>
      fetch(`${group}/${verb}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ node_id: 'change', ...body }),
      })
    const { leader } = (await (await post('campaign', { lease_ttl_ms: 60_000 })).json()) as { leader: { term: number } }
    await post('resign', { term: leader.term })
    for (const url of this.entries) await (await fetch(`${url}/v1/groups/change/watch`)).arrayBuffer()
  }

  async reload(): Promise<void> {
    await Promise.all(this.#replicas.map(async ({ running }) => running?.reload()))
  }

  async close(): Promise<void> {
    const last = await this.#holder()
    // What waits at a follower hears from the active one that it waits no more.
    await Promise.all(this.#replicas.map(async (replica) => (replica === last ? undefined : replica.running?.close())))
    await last?.running?.close()
    this.#front.close()
  }
}

/** Takes each connection to a replica that is picked for it. */
class Front {
  readonly #pick: () => string | undefined
  readonly #server: Server

  constructor(pick: () => string | undefined) {
    this.#pick = pick
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#pass(client))
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Connections end with the replicas. */
  close(): void {
    this.#server.close()
  }

  #pass(client: Socket): void {
    const target = this.#pick()
    if (target === undefined) return void client.destroy()
    const upstream = connect({
      port: Number(new URL(target).port),
      host: '127.0.0.1',
      allowHalfOpen: true,
      noDelay: true,
    })
    const ends = [client, upstream]
    for (const socket of ends) {
      socket.on('error', () => {})
      socket.once('close', () => {
        for (const other of ends) other.destroySoon()
      })
    }
    // What its server has ended it does not read any more.
    upstream.once('end', () => ends.forEach((socket) => socket.destroySoon()))
    client.pipe(upstream)
    upstream.pipe(client)
  }
}
