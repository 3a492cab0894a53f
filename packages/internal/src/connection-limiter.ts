import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import type { Socket } from 'node:net'
import { clientNetwork } from './client-network.ts'

/** Options of {@link ConnectionLimiter}. */
export interface ConnectionLimiterOptions {
  /** The maximum number of connections. */
  readonly most: number
  /** The maximum number of connections without an identity. The rest is reserved for identified callers. */
  readonly mostUnknown: number
  /**
   * The maximum number of connections per address. An address may be a proxy with many clients. All addresses of a /64
   * IPv6 network count as one.
   */
  readonly mostPerAddress: number
  /** The maximum number of connections without an identity per address. */
  readonly mostUnknownPerAddress: number
  /** How long a connection without an identity may be idle. */
  readonly unknownIdleMs: number
  nowMs(): number
}

/** The part of a socket that the limiter uses. */
export type LimitedSocket = Pick<Socket, 'remoteAddress' | 'bytesRead' | 'destroy' | 'once'>

interface UnknownConnection {
  /** Requests in flight. */
  busy: number
  /** When the connection's last request ended, or when the connection was accepted. */
  idleSinceMs: number
}

interface ConnectionOrigin {
  readonly address: string
  count: number
  /** The connections of this address without an identity, oldest first. */
  readonly unknown: Set<LimitedSocket>
}

/**
 * Limits the connections of a server. A connection is unknown until {@link identify} reports that its sender has proven
 * its identity. Above the limit, the oldest unknown connection is closed, and the new one stays. So a caller that holds
 * idle connections cannot lock others out, and an honest caller identifies itself before its connection becomes the
 * oldest. Connections of identified callers are never closed to make room.
 */
export class ConnectionLimiter {
  readonly #options: ConnectionLimiterOptions
  /** All connections without an identity, oldest first. */
  readonly #unknown = new Map<LimitedSocket, UnknownConnection>()
  readonly #sockets = new Map<LimitedSocket, ConnectionOrigin>()
  readonly #origins = new Map<string, ConnectionOrigin>()
  /** The raw connection of each TLS peer, to which `secureConnection` maps the encrypted socket. Empty without TLS. */
  readonly #byPeer = new Map<string, Socket>()
  readonly #below = new WeakMap<LimitedSocket, LimitedSocket>()

  constructor(options: ConnectionLimiterOptions) {
    this.#options = options
  }

  /** All open connections, as they were accepted. With TLS, these are the raw connections underneath. */
  get sockets(): Iterable<LimitedSocket> {
    return this.#sockets.keys()
  }

  get unknownCount(): number {
    return this.#unknown.size
  }

  /** Guards all connections of a server. Call it before the server listens. */
  guard(server: Server): void {
    // Node refuses connections above its own limit. Connections closed here still count until they are gone, so that
    // limit must be higher.
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

  add(socket: LimitedSocket): void {
    const { most, mostUnknown, mostPerAddress, mostUnknownPerAddress } = this.#options
    const address = clientNetwork(socket.remoteAddress ?? '')
    const origin = this.#origins.get(address) ?? { address, count: 0, unknown: new Set() }
    this.#origins.set(address, origin)
    origin.count += 1
    origin.unknown.add(socket)
    this.#sockets.set(socket, origin)
    this.#unknown.set(socket, { busy: 0, idleSinceMs: this.#options.nowMs() })
    socket.once('close', () => this.#remove(socket))
    const close = (oldest: LimitedSocket = socket) => {
      this.#remove(oldest)
      oldest.destroy()
    }
    if (origin.count > mostPerAddress || origin.unknown.size > mostUnknownPerAddress) close(first(origin.unknown))
    if (this.#sockets.size > most || this.#unknown.size > mostUnknown) close(first(this.#unknown.keys()))
  }

  /** Records that the sender of a request on this connection has proven its identity. */
  identify(socket: LimitedSocket): void {
    const below = this.#below.get(socket) ?? socket
    if (this.#unknown.delete(below)) this.#sockets.get(below)?.unknown.delete(below)
  }

  /**
   * Records the start of a request. Returns a function to call when the request ends, or undefined if the connection is
   * identified.
   */
  begin(socket: LimitedSocket): (() => void) | undefined {
    const visitor = this.#unknown.get(this.#below.get(socket) ?? socket)
    if (!visitor) return undefined
    visitor.busy += 1
    return () => {
      visitor.busy -= 1
      visitor.idleSinceMs = this.#options.nowMs()
    }
  }

  /** Closes unknown connections that have been idle for too long. Call it periodically. */
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

  #remove(socket: LimitedSocket): void {
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
