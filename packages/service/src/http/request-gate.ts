import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FairQueue, Lane } from '../common/fair-queue.ts'
import { refuseBusy } from './error-responses.ts'
import { SocketIntake } from './socket-intake.ts'

/** Clients may send further requests before they receive a response, up to this many on one connection. */
const maxUnanswered = 256
/** A connection with this many waiting requests is not read until all of them have begun. */
const holdAt = 8
/** The price of parsing the requests that arrive at once when reading from a connection resumes. */
const readMs = 1

type Handler = (request: IncomingMessage, response: ServerResponse) => void

interface PipelinedConnection {
  readonly waiting: { readonly request: IncomingMessage; readonly response: ServerResponse }[]
  /** Unanswered requests, including those that wait. */
  unanswered: number
  /** Whether one of the connection's requests is in the fair queue. */
  isQueued: boolean
  /** The turn in which the connection's last request began. */
  turn: number | undefined
  readonly intake: SocketIntake
  /** Whether the connection has sent too many requests at once. If so, no more requests are accepted from it. */
  isOver: boolean
}

/**
 * Begins one request of each connection per turn, and the requests of all connections in an order that is fair by
 * subject.
 *
 * Node parses everything that has arrived on a connection at once, and emits each request that it finds. Without this
 * gate, two hundred requests in one packet would be processed before anyone else's, and a hundred connections would
 * block the event loop for seconds.
 */
export class RequestGate {
  readonly #queue: FairQueue
  readonly #laneOf: (request: IncomingMessage) => Lane
  readonly #lines = new WeakMap<Socket, PipelinedConnection>()
  #handle: Handler = () => {}

  constructor(queue: FairQueue, laneOf: (request: IncomingMessage) => Lane) {
    this.#queue = queue
    this.#laneOf = laneOf
  }

  /** Returns the listener for a server's requests. `handle` answers them. */
  guard(handle: Handler): Handler {
    this.#handle = handle
    return (request, response) => this.#take(request, response)
  }

  /** Attaches to a new connection, before anything is read from it. */
  meet(socket: Socket): void {
    this.#lineOf(socket).intake.attach()
  }

  #lineOf(socket: Socket): PipelinedConnection {
    const line = this.#lines.get(socket) ?? newLine(socket)
    this.#lines.set(socket, line)
    return line
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const line = this.#lineOf(socket)
    line.intake.note()
    if (line.isOver) return line.intake.hold()
    line.unanswered += 1
    response.once('close', () => (line.unanswered -= 1))
    if (line.unanswered > maxUnanswered) {
      end(line)
      // This response is sent after those to the previous requests, and closes the connection.
      return refuseBusy(response, 'Too many requests at once on one connection.')
    }
    const isSecond = line.turn === this.#queue.turn
    if (!line.isQueued) return this.#begin(line, { request, response }, isSecond ? 'runLater' : 'run')
    line.waiting.push({ request, response })
    if (line.waiting.length >= holdAt) line.intake.hold()
  }

  #begin(
    line: PipelinedConnection,
    { request, response }: PipelinedConnection['waiting'][number],
    how: 'run' | 'runLater',
  ): void {
    line.isQueued = true
    const lane = this.#laneOf(request)
    const work = () => {
      line.isQueued = false
      line.turn = this.#queue.turn
      // If the connection is closed, nobody is waiting for the response.
      if (!request.socket.destroyed) this.#handle(request, response)
      this.#goOn(line, request.socket, lane)
    }
    if (this.#queue[how](lane, work)) return
    // The response closes the connection, so later requests on it are not answered.
    end(line)
    line.waiting.length = 0
    refuseBusy(response, 'Too many requests at once.')
  }

  #goOn(line: PipelinedConnection, socket: Socket, lane: Lane): void {
    if (socket.destroyed) line.waiting.length = 0
    const next = line.waiting.shift()
    if (next) return this.#begin(line, next, 'runLater')
    // The connection is closed with its last response.
    if (line.isOver) return line.intake.hold()
    // In one turn, the next packets of many connections may arrive, and each packet is parsed at once.
    if (this.#queue.isBusy(lane)) line.intake.hold()
    if (!line.intake.isHeld) return
    // Reading also waits for its turn, because the data that has arrived meanwhile is parsed at once.
    const read = () => {
      this.#queue.charge(lane, readMs)
      if (!line.isOver) line.intake.release()
    }
    if (!this.#queue.runLater(lane, read)) read()
  }
}

/**
 * Accepts nothing more from a connection. Reading stops at once, because every further request would stay in memory.
 */
function end(line: PipelinedConnection): void {
  line.isOver = true
  line.intake.hold()
}

function newLine(socket: Socket): PipelinedConnection {
  const intake = new SocketIntake(socket)
  return { waiting: [], unanswered: 0, isQueued: false, turn: undefined, intake, isOver: false }
}
