import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FairQueue, Lane } from '../fair-queue.ts'
import { refuseBusy } from './failures.ts'
import { SocketIntake } from './socket-intake.ts'

/** Clients may send the next request before they have an answer, up to this many on one connection. */
const mostUnanswered = 256
/** A connection of which this many requests wait is not read until all of them have begun. */
const holdAt = 8
/** What it costs to parse the requests that arrive at once when a connection is read again. */
const readMs = 1

type Handler = (request: IncomingMessage, response: ServerResponse) => void

interface Line {
  readonly waiting: { readonly request: IncomingMessage; readonly response: ServerResponse }[]
  /** Requests that are not answered yet, including those that wait. */
  unanswered: number
  /** One of its requests is in the queue. */
  isQueued: boolean
  /** The turn in which its last request began. */
  turn: number | undefined
  readonly intake: SocketIntake
  /** It has sent too many requests at once. Nothing more is taken from it. */
  isOver: boolean
}

/**
 * Begins one request of each connection in a turn, and the requests of all connections in an order that is fair by
 * subject.
 *
 * Node parses everything that has arrived on a connection at once, and emits a request for each that it finds. Without
 * this, two hundred requests in one packet would be worked on before anybody else's, and a hundred connections would
 * keep the event loop for seconds.
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

  /** What a server calls with each request. `handle` is what answers it. */
  guard(handle: Handler): Handler {
    this.#handle = handle
    return (request, response) => this.#take(request, response)
  }

  /** A connection that was accepted, before anything was read from it. */
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
    if (line.isOver) return
    line.unanswered += 1
    response.once('close', () => (line.unanswered -= 1))
    if (line.unanswered > mostUnanswered) {
      line.isOver = true
      // It is sent after the answers to the requests before it, and closes the connection.
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
      // Nobody waits for the answer any more.
      if (!request.socket.destroyed) this.#handle(request, response)
      this.#goOn(line, request.socket, lane)
    }
    if (this.#queue[how](lane, work)) return
    // Its connection closes with it: what follows is not answered.
    line.isOver = true
    line.waiting.length = 0
    refuseBusy(response, 'Too many requests at once.')
  }

  #goOn(line: Line, socket: Socket, lane: Lane): void {
    if (socket.destroyed) line.waiting.length = 0
    const next = line.waiting.shift()
    if (next) return this.#begin(line, next, 'runLater')
    // It is closed with its last answer.
    if (line.isOver) return line.intake.hold()
    // The next packets of many connections may arrive in one turn, and each of them is parsed at once.
    if (this.#queue.isBusy(lane)) line.intake.hold()
    if (!line.intake.isHeld) return
    // In its turn too: what has arrived meanwhile is parsed at once.
    const read = () => {
      this.#queue.charge(lane, readMs)
      line.intake.release()
    }
    if (!this.#queue.runLater(lane, read)) read()
  }
}

function newLine(socket: Socket): Line {
  const intake = new SocketIntake(socket)
  return { waiting: [], unanswered: 0, isQueued: false, turn: undefined, intake, isOver: false }
}
