import { ConnectionRoom } from '@tenure/internal/connection-room'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Clock } from 'tenure'
import { validForMs } from '../auth/access.ts'
import { revoked } from '../auth/revocations.ts'
import type { LimitOptions } from './limit-options.ts'
import type { Limits } from './limits.ts'
import type { Service } from './service.ts'

const drainLookMs = 50
/** This part of all connections may be without an identity. */
const unknownPart = 4

/**
 * The connections of a server: which of them make room, how long an answer may be unread, and how all of them end.
 *
 * A server that closes waits for all its connections, and some would take long: those that nobody uses, those of a
 * client that has stopped reading, and those that never sent anything, which nothing counts as idle.
 */
export class Connections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #limits: LimitOptions
  readonly #room: ConnectionRoom
  /** What answers are written to: with TLS, the encrypted socket. */
  readonly #readers = new Map<Socket, { readonly taken: number; readonly sinceMs: number } | undefined>()

  constructor(server: Server, limits: LimitOptions, clock: Clock) {
    this.#server = server
    this.#limits = limits
    this.#clock = clock
    this.#room = new ConnectionRoom({
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

  /** The sender of a request on this connection has authenticated: it stays when others make room. */
  identify(socket: Socket): void {
    this.#room.identify(socket)
  }

  closeAll(): void {
    this.#room.closeAll()
  }

  /** Ends connections as they fall idle until `closed` settles, and after `graceMs` all that are left. */
  async drain(closed: Promise<unknown>, graceMs: number): Promise<void> {
    for (const socket of this.#room.sockets) if (socket.bytesRead === 0) socket.destroy()
    let done = false
    const untilMs = this.#clock.monotonicMs() + graceMs
    const look = () => {
      if (done) return
      // A request that was under way when the server began to close has left its connection open.
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
    // Each request that waits listens for the end of its connection, and several may wait on one.
    socket.setMaxListeners(0)
    this.#readers.set(socket, undefined)
    socket.once('close', () => this.#readers.delete(socket))
  }

  /**
   * Node has a timeout for slow senders, but not for slow readers. An answer of which nothing was read for that long
   * holds memory for a client that will not come back. And if all unread answers together take too much memory, the
   * connections with the most go first.
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

/** A hook for routes whose answers may be large: they count until they are read. */
export function countUnread(limits: Limits) {
  return (request: FastifyRequest, reply: FastifyReply, payload: unknown, done: (error?: Error | null) => void) => {
    request.leaveTurn?.()
    try {
      const leave = typeof payload === 'string' ? limits.answering(request, Buffer.byteLength(payload)) : undefined
      if (leave) onceGone(reply, leave)
    } catch (error) {
      return done(error as Error)
    }
    done()
  }
}

/** Calls back once the answer is sent or its reader has gone, even if that was long ago: the event comes only once. */
export function onceGone({ raw }: FastifyReply, gone: () => void): void {
  if (raw.closed || raw.destroyed) gone()
  else raw.once('close', gone)
}

/** Whether the identity of the caller still holds. */
export function isStillKnown(service: Service, { identity, generation }: FastifyRequest): boolean {
  const { authenticator, clock, revocations } = service
  return (
    generation === authenticator.generation && validForMs(identity, clock.wallMs()) > 0 && !revocations.has(identity)
  )
}

/**
 * Runs with a signal that aborts when the client has gone, rights were read again, or the service stops: then there is
 * nobody to wait for. A caller whose token was revoked meanwhile gets nothing but that.
 */
export async function whileHere<T>(
  service: Service,
  request: FastifyRequest,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const leave = () => controller.abort()
  const { socket } = request.raw
  socket.once('close', leave)
  const { identity } = request
  const forget = service.streams.add({ identity, end: leave })
  if (socket.destroyed || !isStillKnown(service, request)) leave()
  try {
    const result = await run(controller.signal)
    if (service.revocations.has(identity)) throw revoked()
    return result
  } finally {
    forget()
    socket.off('close', leave)
  }
}
