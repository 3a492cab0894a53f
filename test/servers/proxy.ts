import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from './free-port.ts'

/**
 * The fate of sent bytes:
 * - `pass`: they arrive at once.
 * - `hold`: they arrive when the mode changes, as after a network partition that TCP survives.
 * - `blackhole`: they never arrive, nor does the end of the connection. A connection that lost bytes stays broken in
 *   that
 *   direction, because no byte of a stream can arrive after a gap.
 * - `delayMs`: they arrive this much later.
 * - `bytes`, `everyMs`: they trickle.
 */
export type Mode =
  | 'pass'
  | 'hold'
  | 'blackhole'
  | { readonly delayMs: number }
  | { readonly bytes: number; readonly everyMs: number }

export type Direction = 'to-server' | 'to-client'

/** A proxy between clients and one loopback port that simulates network faults. */
export interface Proxy {
  readonly port: number
  /** The number of accepted connections. */
  readonly opened: number
  /** The number of accepted connections that the client has neither ended nor reset. */
  readonly open: number
  /** How many times clients have sent something. */
  readonly sent: number
  /** The number of bytes that black holes have dropped. */
  readonly swallowedBytes: number
  /** The number of bytes in flight: held, delayed, or queued. */
  readonly queuedBytes: number
  /** Sets the mode of existing and new connections. Default: in both directions. */
  set(mode: Mode, direction?: Direction): void
  /** Turns existing connections into black holes. New ones are not affected. */
  freezeExisting(direction?: Direction): void
  /** Resets existing connections on both sides. */
  reset(): void
  /** Refuses new connections until `accept` is called. */
  refuse(): void
  accept(): Promise<void>
  stop(): void
}

/** Starts a proxy for a loopback port. It forwards everything at first. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const port = await freePort()
  const modes: Record<Direction, Mode> = { 'to-server': 'pass', 'to-client': 'pass' }
  const connections = new Set<Connection>()
  let opened = 0
  let sent = 0
  let swallowedBytes = 0
  let server: Server | undefined

  const proxy: Proxy = {
    port,
    get opened() {
      return opened
    },
    get open() {
      return [...connections].filter(({ client }) => !client.readableEnded && !client.destroyed).length
    },
    get sent() {
      return sent
    },
    get swallowedBytes() {
      return swallowedBytes
    },
    get queuedBytes() {
      const flows = [...connections].flatMap(({ flows }) => Object.values(flows))
      return flows.reduce((sum, flow) => sum + flow.queuedBytes, 0)
    },
    set(mode, direction) {
      for (const each of directions(direction)) {
        modes[each] = mode
        for (const connection of connections) connection.flows[each].set(mode)
      }
    },
    freezeExisting(direction) {
      for (const { flows } of connections) for (const each of directions(direction)) flows[each].freeze()
    },
    reset() {
      for (const { client, upstream } of connections) {
        reset(client)
        reset(upstream)
      }
    },
    refuse() {
      server?.close()
      server = undefined
    },
    async accept() {
      if (server) return
      const next = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
        opened++
        client.on('data', () => sent++)
        const connection = openConnection(client, targetPort, modes, (bytes) => {
          swallowedBytes += bytes
        })
        connections.add(connection)
        const forget = () => {
          if (client.destroyed && connection.upstream.destroyed) connections.delete(connection)
        }
        client.once('close', forget)
        connection.upstream.once('close', forget)
      })
      server = next
      await listen(next, port)
    },
    stop() {
      proxy.refuse()
      proxy.reset()
    },
  }
  await proxy.accept()
  return proxy
}

/**
 * A process that was forked while the proxy was listening has a copy of that socket until it starts its program, so the
 * port may be in use for a moment.
 */
async function listen(server: Server, port: number): Promise<void> {
  const untilMs = performance.now() + 5_000
  for (;;) {
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || performance.now() > untilMs) throw error
      await delay(10)
    }
  }
}

interface Connection {
  readonly client: Socket
  readonly upstream: Socket
  readonly flows: Readonly<Record<Direction, Flow>>
}

function openConnection(
  client: Socket,
  targetPort: number,
  modes: Readonly<Record<Direction, Mode>>,
  onSwallow: (bytes: number) => void,
): Connection {
  const upstream = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  const flows = {
    'to-server': new Flow(client, upstream, modes['to-server'], onSwallow),
    'to-client': new Flow(upstream, client, modes['to-client'], onSwallow),
  }
  return { client, upstream, flows }
}

function reset(socket: Socket): void {
  // A reset would wait for a connection that may never be established. While an end is being sent, the system refuses a
  // reset, and Node.js then keeps the connection open forever.
  if (socket.connecting || (socket.writableEnded && !socket.writableFinished)) socket.destroy()
  else socket.resetAndDestroy()
}

function directions(direction: Direction | undefined): Direction[] {
  return direction ? [direction] : ['to-server', 'to-client']
}

type Item = { readonly what: Buffer | 'end' | 'reset'; readonly arrivedMs: number }

/** The limit of bytes in flight. Beyond it the sender is slowed down, as in a real network. */
const maxQueuedBytes = 1_000_000

/** One direction of one connection. */
class Flow {
  readonly #source: Socket
  readonly #sink: Socket
  readonly #onSwallow: (bytes: number) => void
  #mode: Mode
  #frozen = false
  #isFull = false
  #queue: Item[] = []
  #trickledMs = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor(source: Socket, sink: Socket, mode: Mode, onSwallow: (bytes: number) => void) {
    this.#source = source
    this.#sink = sink
    this.#mode = mode
    this.#onSwallow = onSwallow
    source.on('data', (chunk) => this.#push(chunk))
    source.once('end', () => this.#push('end'))
    source.once('error', () => this.#push('reset'))
    sink.on('drain', () => {
      this.#isFull = false
      this.#pump()
    })
    sink.once('close', () => this.freeze())
  }

  set(mode: Mode): void {
    this.#mode = mode
    this.#pump()
  }

  freeze(): void {
    this.#frozen = true
    this.#swallow()
    clearTimeout(this.#timer)
    this.#source.resume()
  }

  #push(what: Item['what']): void {
    this.#queue.push({ what, arrivedMs: performance.now() })
    if (this.#frozen) return this.#swallow()
    if (this.queuedBytes > maxQueuedBytes) this.#source.pause()
    this.#pump()
  }

  #swallow(): void {
    // Bytes to a receiver that has already closed are not lost by the network.
    if (!this.#sink.destroyed) this.#onSwallow(this.queuedBytes)
    this.#queue = []
  }

  get queuedBytes(): number {
    return this.#queue.reduce((sum, { what }) => sum + (typeof what === 'string' ? 0 : what.length), 0)
  }

  #pump(): void {
    clearTimeout(this.#timer)
    for (let item = this.#queue[0]; item && !this.#isFull; item = this.#queue[0]) {
      if (this.#mode === 'blackhole') return this.freeze()
      if (this.#mode === 'hold') return
      const waitMs = this.#dueMs(item) - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#pump(), waitMs)
        return
      }
      this.#queue.shift()
      this.#deliver(item)
    }
    if (this.#queue.length === 0) this.#source.resume()
  }

  #dueMs({ arrivedMs }: Item): number {
    if (typeof this.#mode === 'string') return arrivedMs
    return 'delayMs' in this.#mode ? arrivedMs + this.#mode.delayMs : this.#trickledMs + this.#mode.everyMs
  }

  #deliver({ what, arrivedMs }: Item): void {
    if (what === 'end') this.#sink.end()
    else if (what === 'reset') reset(this.#sink)
    else {
      const bytes = typeof this.#mode === 'object' && 'bytes' in this.#mode ? this.#mode.bytes : what.length
      this.#trickledMs = performance.now()
      if (bytes < what.length) this.#queue.unshift({ what: what.subarray(bytes), arrivedMs })
      this.#isFull = !this.#sink.write(what.subarray(0, bytes))
    }
  }
}
