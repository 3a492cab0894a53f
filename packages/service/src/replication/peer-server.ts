import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { clientNetwork } from '@tenure/internal/client-network'
import { isLoopback } from '@tenure/internal/loopback'
import type { Clock } from 'tenure'
import { wrongOption } from '../common/errors.ts'
import type { FairQueue } from '../common/fair-queue.ts'
import type { Groups } from '../groups/port.ts'
import type { ActiveView, FollowerView, ReplicasView } from './replica-views.ts'
import type { Feed } from '../watch/feed.ts'
import { PeerSession } from './peer-session.ts'
import { isProof, peerHeaders, peerKeys, peerPath, newNonce, proofOf, protocol } from './peer-authentication.ts'
import type { ActiveReplica, ActiveReplicaSource } from './active-replica.ts'
import type { KnownTerms } from './term-announcements.ts'

export interface PeerServerOptions {
  readonly clusterId: string
  /** Returns the secret in the head of the storage. */
  secret(): string
  readonly activeReplicas: ActiveReplicaSource
  readonly terms: KnownTerms
  readonly clock: Clock
  /** An IP address, or `all` for all addresses of this machine. The default is 127.0.0.1. */
  readonly host?: string | undefined
  readonly port: number
  /** The TLS options of the listener. Without them, only processes on this machine may connect. */
  readonly tls?: SecureContextOptions | undefined
  /** The changes that this replica sends while it is active. */
  readonly changes: PeerChanges
  /** Divides the event loop among the callers of followers and of this replica. */
  readonly fairQueue: Pick<FairQueue, 'run'>
  readonly budget: PeerBudget
  /** Returns the view of this replica that operators see while it is active. */
  active(): ActiveView | undefined
}

/** Charges the callers of followers on the active replica. */
export interface PeerBudget {
  /** Charges a subject for work, in requests. Throws if its budget is used up. */
  work(subject: string, units: number): void
  /**
   * Charges a subject for deliveries that it causes. Returns false if its budget is used up. In that case nothing is
   * delivered.
   */
  deliver(subject: string, count: number): boolean
}

/** The changes that this replica sends. */
export interface PeerChanges extends Pick<Groups, 'listen' | 'textsOf'> {
  readonly feed: Feed
  /** Resolves to true once changes come from the groups of this active term, and to false if they never will. */
  whenFrom(activeReplica: ActiveReplica): Promise<boolean>
}

const maxConnections = 256
/** The limit per network for unauthenticated connections. Without it, a silent client could take all connections. */
const maxUnauthenticated = 16
const greetingMs = 5_000

/**
 * The server for peer connections. Every replica has one, on its own listener. It answers calls from the groups for
 * which this replica is active, or answers that it is not active. It never forwards a call, so no call can loop.
 */
export class PeerServer {
  readonly #options: PeerServerOptions
  readonly #server: Server
  readonly #peers = new Set<PeerSession>()
  readonly #sockets = new Set<Socket>()
  /**
   * The connections that have not yet proven that they belong to this cluster: by network, and then by peer, oldest
   * first.
   */
  readonly #strangers = new Map<string, Map<string, Socket>>()
  readonly #stopped = new AbortController()

  constructor(options: PeerServerOptions) {
    const { host = '127.0.0.1', tls } = options
    if (!tls && !isLoopback(host)) {
      throw wrongOption('advertise', ' ', 'needs TLS unless it is a loopback address.')
    }
    this.#options = options
    const timeouts = { headersTimeout: greetingMs, requestTimeout: greetingMs, connectionsCheckingInterval: 1_000 }
    this.#server = tls ? createTlsServer({ ...tls, ...timeouts, handshakeTimeout: greetingMs }) : createServer(timeouts)
    this.#server.maxConnections = maxConnections
    // A connection serves one upgrade. Unauthenticated clients get no further answers.
    this.#server.maxRequestsPerSocket = 1
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      const { remoteAddress = '', remotePort = 0 } = socket
      this.#meet(socket, remoteAddress, remotePort)
      socket.once('close', () => {
        this.#sockets.delete(socket)
        this.#know(remoteAddress, remotePort)
      })
    })
    this.#server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) =>
      this.#onUpgrade(request, socket, head),
    )
    this.#server.on(
      'request',
      (_request, response) => void response.writeHead(426, { upgrade: protocol, connection: 'close' }).end(),
    )
  }

  /** Resolves to the port. */
  async listen(): Promise<number> {
    const { host = '127.0.0.1', port } = this.#options
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      // Without a host, Node also listens on IPv6 addresses, if there are any.
      this.#server.listen({ port, ...(host !== 'all' && { host }) }, () => resolve())
    })
    void this.#endPeersOfFormerTerms()
    return (this.#server.address() as AddressInfo).port
  }

  /** Uses another certificate for connections from now on. */
  renew(tls: SecureContextOptions): void {
    if (this.#server instanceof TlsServer) this.#server.setSecureContext(tls)
  }

  /** Returns the replicas that this replica knows. While it is active, these are all of them. */
  view(): ReplicasView {
    // A follower that reconnects before its old connection is closed counts as one replica.
    const followers = new Map<string, FollowerView>()
    for (const { view } of this.#peers) if (view) followers.set(view.replica, view)
    return { active: this.#options.active(), followers: [...followers.values()] }
  }

  /** Closes all connections. Followers send their waiting calls to another replica. */
  async close(): Promise<void> {
    this.#stopped.abort()
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()))
    for (const peer of this.#peers) peer.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /**
   * Closes the connections when this replica stops being active, so that followers repeat their waiting calls on the
   * next one.
   */
  async #endPeersOfFormerTerms(): Promise<void> {
    const { activeReplicas } = this.#options
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const activeReplica = activeReplicas.now()
      await activeReplicas.changed(activeReplica, signal)
      if (activeReplica.kind !== 'local') continue
      for (const peer of this.#peers) peer.close()
    }
  }

  /**
   * Adds an unauthenticated connection. If its network has too many, the oldest is closed. A replica of this cluster
   * authenticates quickly.
   */
  #meet(socket: Socket, address: string, port: number): void {
    const network = clientNetwork(address)
    const strangers = this.#strangers.get(network) ?? new Map<string, Socket>()
    this.#strangers.set(network, strangers)
    strangers.set(`${address} ${port}`, socket)
    const [oldest] = strangers
    if (!oldest || strangers.size <= maxUnauthenticated) return
    strangers.delete(oldest[0])
    oldest[1].destroy()
  }

  /** Identified by port, because with TLS the upgraded socket is not the same object as the accepted one. */
  #know(address: string, port: number): void {
    const network = clientNetwork(address)
    const strangers = this.#strangers.get(network)
    strangers?.delete(`${address} ${port}`)
    if (strangers?.size === 0) this.#strangers.delete(network)
  }

  #onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const { clusterId, secret, clock } = this.#options
    socket.on('error', () => {})
    const { headers } = request
    const { remoteAddress = '', remotePort = 0 } = socket
    const refuse = (status: string) => {
      socket.write(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`)
      // Closes both halves: the other side may never close its own.
      socket.destroySoon()
    }
    if (request.url !== peerPath) return refuse('404 Not Found')
    if (headers.upgrade !== protocol) return refuse(`426 This replica speaks ${protocol}`)
    const keys = peerKeys(secret())
    const found = keys.find(({ name }) => isProof(headers[peerHeaders.key], name))
    const caller = headers[peerHeaders.nonce]
    if (!found || typeof caller !== 'string') return refuse('401 The secret does not match')
    if (headers[peerHeaders.cluster] !== clusterId) return refuse('409 This replica belongs to another cluster')
    const greeting = { clusterId, caller, called: newNonce() }
    socket.write(
      [
        'HTTP/1.1 101 Switching Protocols',
        'connection: Upgrade',
        `upgrade: ${protocol}`,
        `${peerHeaders.nonce}: ${greeting.called}`,
        `${peerHeaders.proof}: ${proofOf('called', found.key, greeting)}`,
        '\r\n',
      ].join('\r\n'),
    )
    const peer = new PeerSession(socket, head, {
      ...this.#options,
      clock,
      proof: proofOf('caller', found.key, greeting),
      greetingMs,
      replicas: () => this.view(),
      onKnown: () => this.#know(remoteAddress, remotePort),
      onClose: () => this.#peers.delete(peer),
    })
    this.#peers.add(peer)
  }
}
