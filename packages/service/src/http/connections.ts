import { ConnectionLimiter } from '@tenure/internal/connection-limiter'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Clock } from 'tenure'
import { validForMs } from '../auth/access.ts'
import { revokedError } from '../auth/revocations.ts'
import type { LimitOptions } from './limit-options.ts'
import type { Limits } from './limits.ts'
import type { Service } from './service.ts'

const drainLookMs = 50
/** At most this fraction of all connections (1/n) may be unidentified. */
const unknownPart = 4

/**
 * Manages the connections of a server: which ones are closed to make room, how long a response may stay unread, and how
 * all of them end.
 *
 * A server that closes waits for all its connections, and some would take a long time: unused ones, those of a client
 * that has stopped reading, and those that never sent anything, which Node does not count as idle.
 */
export class HttpConnections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #limits: LimitOptions
  readonly #room: ConnectionLimiter
  /** The sockets that responses are written to. With TLS, this is the encrypted socket. */
  readonly #readers = new Map<Socket, { readonly taken: number; readonly sinceMs: number } | undefined>()

  constructor(server: Server, limits: LimitOptions, clock: Clock) {
    this.#server = server
    this.#limits = limits
    this.#clock = clock
    this.#room = new ConnectionLimiter({
      most: limits.maxConnections,
      mostUnknown: Math.ceil(limits.maxConnections / unknownPart),
      mostPerAddress: limits.maxConnectionsPerAddress,
      mostUnknownPerAddress: limits.maxUnidentifiedPerAddress,
      unknownIdleMs: limits.unidentifiedTimeoutMs,
      nowMs: () => clock.monotonicMs(),
    })
    this.#room.guard(server)
    server.prependListener('connection', (socket: Socket) => {
      if (!(socket instanceof TLSSocket)) this.#addReader(socket)
    })
    server.on('secureConnection', (socket: Socket) => this.#addReader(socket))
    const shortestMs = Math.min(limits.answerTimeoutMs, limits.unidentifiedTimeoutMs)
    const periodMs = Math.min(500, Math.ceil(shortestMs / 4))
    const look = () => {
      timer = clock.setTimer(periodMs, look, { background: true })
      this.#cutUnread()
      this.#room.closeIdle()
    }
    let timer = clock.setTimer(periodMs, look, { background: true })
    server.once('close', () => timer.cancel())
  }

  /**
   * Records that the sender of a request on this connection has authenticated, so that the connection is not closed to
   * make room for others.
   */
  identify(socket: Socket): void {
    this.#room.identify(socket)
  }

  closeAll(): void {
    this.#room.closeAll()
  }

  /** Closes connections as they become idle until `closed` settles. After `graceMs`, closes all that are left. */
  async drain(closed: Promise<unknown>, graceMs: number): Promise<void> {
    for (const socket of this.#room.sockets) if (socket.bytesRead === 0) socket.destroy()
    let done = false
    const untilMs = this.#clock.monotonicMs() + graceMs
    const look = () => {
      if (done) return
      // A request that was in flight when the server began to close left its connection open.
      this.#server.closeIdleConnections()
      if (this.#clock.monotonicMs() < untilMs) return void this.#clock.setTimer(drainLookMs, look)
      this.closeAll()
    }
    look()
    try {
      await closed
    } finally {
      done = true
    }
  }

  #addReader(socket: Socket): void {
    // Each waiting request listens for the end of its connection, and several requests may wait on one connection.
    socket.setMaxListeners(0)
    this.#readers.set(socket, undefined)
    socket.once('close', () => this.#readers.delete(socket))
  }

  /**
   * Closes connections with unread responses. Node has a timeout for slow senders, but not for slow readers. A response
   * that was not read at all for that long holds memory for a client that will not come back. If all unread responses
   * together take too much memory, the connections with the most are closed first.
   */
  #cutUnread(): void {
    const { answerTimeoutMs, maxAnswerBytes } = this.#limits
    const nowMs = this.#clock.monotonicMs()
    const unread: Socket[] = []
    let bytes = 0
    for (const [socket, before] of this.#readers) {
      if (socket.writableLength === 0) {
        this.#readers.set(socket, undefined)
        continue
      }
      unread.push(socket)
      bytes += socket.writableLength
      const taken = socket.bytesWritten - socket.writableLength
      if (before?.taken !== taken) this.#readers.set(socket, { taken, sinceMs: nowMs })
      else if (nowMs - before.sinceMs >= answerTimeoutMs) socket.destroy()
    }
    for (const socket of unread.sort((a, b) => b.writableLength - a.writableLength)) {
      if (bytes <= maxAnswerBytes) return
      bytes -= socket.writableLength
      socket.destroy()
    }
  }
}

/** A hook for routes with large responses. It counts a response until it is read. */
export function countUnread(limits: Limits) {
  return (request: FastifyRequest, reply: FastifyReply, payload: unknown, done: (error?: Error | null) => void) => {
    request.leaveTurn?.()
    try {
      const leave =
        typeof payload === 'string' ? limits.reserveResponse(request, Buffer.byteLength(payload)) : undefined
      if (leave) onResponseClosed(reply, leave)
    } catch (error) {
      return done(error as Error)
    }
    done()
  }
}

/**
 * Calls back once the response is sent or its reader has disconnected, even if that happened earlier. The event itself
 * is emitted only once.
 */
export function onResponseClosed({ raw }: FastifyReply, gone: () => void): void {
  const { socket } = raw.req
  if (raw.closed || raw.destroyed || socket.destroyed) return gone()
  let isGone = false
  const leave = () => {
    raw.off('close', leave)
    socket.off('close', leave)
    // Both events may occur at the same time.
    if (!isGone) gone()
    isGone = true
  }
  raw.once('close', leave)
  // A response that is queued behind another one on its connection emits nothing when the connection closes.
  socket.once('close', leave)
}

/** Returns whether the caller's credential is still accepted. */
export function isIdentityValid(service: Service, { identity, generation }: FastifyRequest): boolean {
  const { authenticator, clock, revocations } = service
  return (
    generation === authenticator.generation && validForMs(identity, clock.wallMs()) > 0 && !revocations.has(identity)
  )
}

/**
 * Runs with a signal that aborts when the client disconnects, rights are reloaded, or the service stops: waiting is
 * then pointless. If the caller's token was revoked meanwhile, the caller gets only the error for that.
 */
export async function whileConnected<T>(
  service: Service,
  request: FastifyRequest,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const leave = () => controller.abort()
  const { socket } = request.raw
  socket.once('close', leave)
  const { identity } = request
  const forget = service.openResponses.add({ identity, end: leave })
  if (socket.destroyed || !isIdentityValid(service, request)) leave()
  try {
    const result = await run(controller.signal)
    if (service.revocations.has(identity)) throw revokedError()
    return result
  } finally {
    forget()
    socket.off('close', leave)
  }
}
