import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import type { Socket } from 'node:net'
import { clientNetwork } from './client-network.ts'

/** What {@link ConnectionRoom} takes. */
export interface ConnectionRoomOptions {
  /** Connections at once. */
  readonly most: number
  /** Of these, without an identity. The rest is a reserve for callers that are known. */
  readonly mostUnknown: number
  /** From one address, which may be a proxy. All of an IPv6 network of 64 bits count as one. */
  readonly mostPerAddress: number
  /** The same, without an identity. */
  readonly mostUnknownPerAddress: number
  /** How long a connection without an identity may be idle. */
  readonly unknownIdleMs: number
  nowMs(): number
}

/** What is needed of a connection. */
export type RoomSocket = Pick<Socket, 'remoteAddress' | 'bytesRead' | 'destroy' | 'once'>

interface Visitor {
  /** Requests in flight. */
  busy: number
  /** Since when it has none. */
  idleSinceMs: number
}

interface Origin {
  readonly address: string
  count: number
  /** The oldest first. */
  readonly unknown: Set<RoomSocket>
}

/**
 * The connections of a server, which make room for each other. A connection is unknown until {@link identify} says that
 * its sender has proven who it is. Where there are too many, the oldest unknown one is closed, and the new one stays: a
 * caller that holds connections without using them cannot lock others out, and an honest caller identifies itself before
 * its connection is the oldest one. Connections of known callers are never closed for others.
 */
export class ConnectionRoom {
  readonly #options: ConnectionRoomOptions
  /** The oldest first. */
  readonly #unknown = new Map<RoomSocket, Visitor>()
  readonly #sockets = new Map<RoomSocket, Origin>()
  readonly #origins = new Map<string, Origin>()
  /** With TLS: by the peer, the connection below an encrypted one that is still to come. */
  readonly #byPeer = new Map<string, Socket>()
  readonly #below = new WeakMap<RoomSocket, RoomSocket>()

  constructor(options: ConnectionRoomOptions) {
    this.#options = options
  }

  /** All that are open, as they were accepted: with TLS, below the encryption. */
  get sockets(): Iterable<RoomSocket> {
    return this.#sockets.keys()
  }

  get unknownCount(): number {
    return this.#unknown.size
  }

  /** Takes in all connections of a server, before it listens. */
  guard(server: Server): void {
    // Node refuses new connections beyond its own limit, and those that were closed here count until they are gone.
    server.maxConnections = Math.ceil(this.#options.most * 1.25) + 16
    const isTls = server instanceof TlsServer
    server.prependListener('connection', (socket: Socket) => {
      if (isTls) this.#expectTls(socket)
      this.add(socket)
    })
    server.on('secureConnection', (socket: Socket) => {
      const below = this.#byPeer.get(peerOf(socket))
      if (below) this.#below.set(socket, below)
    })
    server.on('request', ({ socket }, response) => {
      const ended = this.begin(socket)
      if (ended) response.once('close', ended)
    })
  }

  #expectTls(socket: Socket): void {
    const peer = peerOf(socket)
    this.#byPeer.set(peer, socket)
    socket.once('close', () => {
      if (this.#byPeer.get(peer) === socket) this.#byPeer.delete(peer)
    })
  }

  add(socket: RoomSocket): void {
    const { most, mostUnknown, mostPerAddress, mostUnknownPerAddress } = this.#options
    const address = clientNetwork(socket.remoteAddress ?? '')
    const origin = this.#origins.get(address) ?? { address, count: 0, unknown: new Set() }
    this.#origins.set(address, origin)
    origin.count += 1
    origin.unknown.add(socket)
    this.#sockets.set(socket, origin)
    this.#unknown.set(socket, { busy: 0, idleSinceMs: this.#options.nowMs() })
    socket.once('close', () => this.#remove(socket))
    const close = (oldest: RoomSocket = socket) => {
      this.#remove(oldest)
      oldest.destroy()
    }
    if (origin.count > mostPerAddress || origin.unknown.size > mostUnknownPerAddress) close(first(origin.unknown))
    if (this.#sockets.size > most || this.#unknown.size > mostUnknown) close(first(this.#unknown.keys()))
  }

  /** The sender of a request on this connection has proven who it is. */
  identify(socket: RoomSocket): void {
    const below = this.#below.get(socket) ?? socket
    if (this.#unknown.delete(below)) this.#sockets.get(below)?.unknown.delete(below)
  }

  /** A request has come. Returns what is called once it is answered; undefined if that does not matter. */
  begin(socket: RoomSocket): (() => void) | undefined {
    const visitor = this.#unknown.get(this.#below.get(socket) ?? socket)
    if (!visitor) return undefined
    visitor.busy += 1
    return () => {
      visitor.busy -= 1
      visitor.idleSinceMs = this.#options.nowMs()
    }
  }

  /** Closes unknown connections that were idle for too long. To be called now and then. */
  closeIdle(): void {
    const { unknownIdleMs, nowMs } = this.#options
    const beforeMs = nowMs() - unknownIdleMs
    for (const [socket, { busy, idleSinceMs }] of this.#unknown) {
      if (busy === 0 && idleSinceMs <= beforeMs) socket.destroy()
    }
  }

  closeAll(): void {
    for (const socket of this.#sockets.keys()) socket.destroy()
  }

  #remove(socket: RoomSocket): void {
    const origin = this.#sockets.get(socket)
    if (!origin) return
    this.#sockets.delete(socket)
    this.#unknown.delete(socket)
    origin.unknown.delete(socket)
    origin.count -= 1
    if (origin.count === 0) this.#origins.delete(origin.address)
  }
}

function first<T>(values: Iterable<T>): T | undefined {
  for (const value of values) return value
  return undefined
}

function peerOf({ remoteAddress = '', remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
