import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FairQueue, Lane } from '../fair-queue.ts'
import { refuseBusy } from './failures.ts'
import { SocketIntake } from './socket-intake.ts'

/** Clients may send the next request before they have a response, up to this many on one connection. */
const mostUnanswered = 256
/** A connection with this many waiting requests is not read until all of them have begun. */
const holdAt = 8
/** The price for parsing the requests that arrive at once when a connection is read again. */
const readMs = 1

type Handler = (request: IncomingMessage, response: ServerResponse) => void

interface Line {
  readonly waiting: { readonly request: IncomingMessage; readonly response: ServerResponse }[]
  /** Unanswered requests, including those that wait. */
  unanswered: number
  /** Whether one of its requests is in the fair queue. */
  isQueued: boolean
  /** The turn in which its last request began. */
  turn: number | undefined
  readonly intake: SocketIntake
  /** Whether it has sent too many requests at once. Then nothing more is taken from it. */
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
  readonly #lines = new WeakMap<Socket, Line>()
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

  /** Takes a new connection, before anything was read from it. */
  meet(socket: Socket): void {
    this.#lineOf(socket).intake.attach()
  }

  #lineOf(socket: Socket): Line {
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
    if (line.unanswered > mostUnanswered) {
      end(line)
      // It is sent after the responses to the previous requests, and closes the connection.
      return refuseBusy(response, 'Too many requests at once on one connection.')
    }
    const isSecond = line.turn === this.#queue.turn
    if (!line.isQueued) return this.#begin(line, { request, response }, isSecond ? 'runLater' : 'run')
    line.waiting.push({ request, response })
    if (line.waiting.length >= holdAt) line.intake.hold()
  }

  #begin(line: Line, { request, response }: Line['waiting'][number], how: 'run' | 'runLater'): void {
    line.isQueued = true
    const lane = this.#laneOf(request)
    const work = () => {
      line.isQueued = false
      line.turn = this.#queue.turn
      // If the connection is closed, nobody waits for the response.
      if (!request.socket.destroyed) this.#handle(request, response)
      this.#goOn(line, request.socket, lane)
    }
    if (this.#queue[how](lane, work)) return
    // The response closes the connection, so later requests on it are not answered.
    end(line)
    line.waiting.length = 0
    refuseBusy(response, 'Too many requests at once.')
  }

  #goOn(line: Line, socket: Socket, lane: Lane): void {
    if (socket.destroyed) line.waiting.length = 0
    const next = line.waiting.shift()
    if (next) return this.#begin(line, next, 'runLater')
    // The connection is closed with its last response.
    if (line.isOver) return line.intake.hold()
    // The next packets of many connections may arrive in one turn, and each of them is parsed at once.
    if (this.#queue.isBusy(lane)) line.intake.hold()
    if (!line.intake.isHeld) return
    // Reading waits for its turn too, because the data that has arrived meanwhile is parsed at once.
    const read = () => {
      this.#queue.charge(lane, readMs)
      if (!line.isOver) line.intake.release()
    }
    if (!this.#queue.runLater(lane, read)) read()
  }
}

/** Takes nothing more from a connection. Reading stops at once, because every further request would stay in memory. */
function end(line: Line): void {
  line.isOver = true
  line.intake.hold()
}

function newLine(socket: Socket): Line {
  const intake = new SocketIntake(socket)
  return { waiting: [], unanswered: 0, isQueued: false, turn: undefined, intake, isOver: false }
}
