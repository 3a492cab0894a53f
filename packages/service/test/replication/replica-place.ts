import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { freePort } from '../../../../test/servers/free-port.ts'
import { askEtcd, base64 } from '../../../../test/servers/etcd.ts'
import { vi } from 'vitest'
import type { RunningServer } from '../../../../test/servers/server.ts'
import { startService, type RunningService } from '../../src/index.ts'
import { loggerOf, type Entry, type Served, type ServeOptions } from '../service-under-test.ts'
import { forkService, type ForkedService } from './forked-service.ts'

interface Replica {
  readonly advertise: string
  running: RunningService | ForkedService | undefined
}

const size = 3

/**
 * How the active replica ends: it is stopped cleanly or killed. A replica that runs in the process of the test is never
 * killed.
 */
export type Leaving = 'stopped' | 'killed'

/** Services of three replicas each, on one etcd. */
export class ReplicaPlace {
  /**
   * Whether each replica runs in a separate process, unless the options set a clock. This is worthwhile only for
   * services that several cases share, because only those are replaced.
   */
  forks = false
  readonly #server: () => RunningServer
  readonly #open = new Set<ReplicatedService>()

  constructor(server: () => RunningServer) {
    this.#server = server
  }

  serve = async (options: ServeOptions, entry: Entry): Promise<Served> => {
    const service = new ReplicatedService(this.#server(), options, entry, this.forks && !options.clock)
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
      // The current URLs. A replaced replica has a new URL.
      get entries() {
        return service.entries
      },
      reload: () => service.reload(),
      close,
    }
  }

  /**
   * Replaces the active replica of each service. With `withChange`, it then makes a change, so that a test can check
   * that no watcher misses it.
   */
  async replaceActive(leaving: Leaving, { withChange }: { readonly withChange: boolean }): Promise<void> {
    const replacements = [...this.#open].map(async (service) => {
      await service.replaceActive(leaving)
      if (withChange) await service.change()
    })
    await Promise.all(replacements)
  }
}

class ReplicatedService {
  readonly #etcd: RunningServer
  readonly #options: ServeOptions
  readonly #forks: boolean
  readonly #prefix = randomUUID()
  readonly #front: Front
  #replicas: Replica[] = []

  constructor(etcd: RunningServer, options: ServeOptions, entry: Entry, forks: boolean) {
    this.#etcd = etcd
    this.#options = options
    this.#forks = forks
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
      this.#replicas.push({ advertise: `http://127.0.0.1:${await freePort()}`, running: undefined })
    }
    const started = await Promise.allSettled(this.#replicas.map((replica) => this.#start(replica)))
    for (const one of started) if (one.status === 'rejected') throw one.reason
    await this.#active()
  }

  async #start(replica: Replica): Promise<void> {
    const store = `${this.#etcd.url.replace('http:', 'etcd:')}/${this.#prefix}`
    const { onLine, ...options } = this.#options
    const all = { ...options, port: 0, store, advertise: replica.advertise }
    replica.running = await (this.#forks
      ? forkService({ ...all, onLine })
      : startService({ ...all, logger: loggerOf(onLine) }))
  }

  /** The replica that held the lease last. */
  async #holder(): Promise<Replica | undefined> {
    const key = base64(`${this.#prefix}/service:leases/active/record`)
    const { kvs = [] } = await askEtcd<{ kvs?: { value: string }[] }>(this.#etcd, 'kv/range', { key })
    const text = Buffer.from(kvs[0]?.value ?? '', 'base64').toString()
    return this.#replicas.find(({ advertise }) => text.includes(`"${advertise}"`))
  }

  async #active(): Promise<Replica> {
    return vi.waitUntil(() => this.#holder(), { timeout: 30_000 })
  }

  async replaceActive(leaving: Leaving): Promise<void> {
    const active = await this.#active()
    const { running } = active
    if (!running) return
    active.running = undefined
    await (leaving === 'killed' && 'kill' in running ? running.kill() : running.close())
    await vi.waitUntil(async () => (await this.#holder()) !== active, { timeout: 30_000 })
    await this.#start(active)
  }

  /**
   * Makes a change and waits until every replica has received it. A replica that has just started knows no earlier
   * changes, so it would report a gap to a watcher with an older cursor from another replica.
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
    // Close the followers first: their waiting calls are then canceled at the active replica.
    await Promise.all(this.#replicas.map(async (replica) => (replica === last ? undefined : replica.running?.close())))
    await last?.running?.close()
    this.#front.close()
  }
}

/** Forwards each connection to a replica chosen by `pick`. */
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

  /** Stops listening. Open connections end with the replicas. */
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
    // A server that has ended its side no longer reads.
    upstream.once('end', () => ends.forEach((socket) => socket.destroySoon()))
    client.pipe(upstream)
    upstream.pipe(client)
  }
}
