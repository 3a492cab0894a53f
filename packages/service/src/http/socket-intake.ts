import type { Socket } from 'node:net'

/**
 * How many bytes are parsed at once. A request with a token takes about a kilobyte, but one without a token may take
 * only 40 bytes.
 */
const leastBytes = 1_024
/** The same within a body. */
const maxBytes = 8_192

/**
 * Feeds the data of a connection to Node's HTTP parser in slices, and pauses while the connection is held.
 *
 * Node reads 64 KB at once, and parses all of it in one step. That may be more than a thousand requests on each
 * connection that a client has opened, and each request takes memory and time before it can be refused.
 */
export class SocketIntake {
  readonly #socket: Socket
  readonly #pause: () => void
  readonly #resume: () => void
  /** Node's own parser. Undefined before {@link attach}. */
  #parse: ((chunk: Buffer) => void) | undefined
  /** Data that has arrived and is not parsed yet. */
  #rest: Buffer | undefined
  #sliceBytes = leastBytes
  #hadRequest = false
  #isParsing = false
  #isHeld = false
  /** Whether Node has paused the socket, because responses or a body are not read. */
  #isPaused = false

  constructor(socket: Socket) {
    this.#socket = socket
    this.#pause = socket.pause.bind(socket)
    this.#resume = socket.resume.bind(socket)
    socket.pause = () => {
      this.#isPaused = true
      this.#pause()
      return socket
    }
    // Node resumes a connection whenever it emits a body. The bodies of all waiting requests have already arrived.
    socket.resume = () => {
      this.#isPaused = false
      if (this.#rest && !this.#isHeld) process.nextTick(() => this.#goOn())
      else if (!this.#isHeld) this.#resume()
      return socket
    }
  }

  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Inserts itself between the connection and the parser. Call it before anything is read. */
  attach(): void {
    const [parse] = this.#socket.listeners('data')
    if (!parse) return
    this.#parse = (chunk) => void parse.call(this.#socket, chunk)
    this.#socket.removeListener('data', parse as (chunk: Buffer) => void)
    this.#socket.on('data', (chunk: Buffer) => {
      this.#rest = this.#rest ? Buffer.concat([this.#rest, chunk]) : chunk
      this.#parseRest()
    })
  }

  /** Called when the parser has found a request. */
  note(): void {
    this.#hadRequest = true
  }

  /** Stops reading and parsing until {@link release}. */
  hold(): void {
    this.#isHeld = true
    this.#pause()
  }

  release(): void {
    this.#isHeld = false
    this.#goOn()
  }

  #goOn(): void {
    this.#parseRest()
    if (!this.#rest && !this.#isHeld && !this.#isPaused) this.#resume()
  }

  #parseRest(): void {
    if (this.#isParsing) return
    this.#isParsing = true
    // After a parse error the response has been ended, and parsing more would destroy the socket before it is read.
    const isOpen = () => !this.#socket.destroyed && !this.#socket.writableEnded
    while (this.#rest && !this.#isHeld && !this.#isPaused && isOpen()) {
      const rest = this.#rest
      this.#rest = rest.length > this.#sliceBytes ? rest.subarray(this.#sliceBytes) : undefined
      this.#hadRequest = false
      this.#parse?.(this.#rest ? rest.subarray(0, this.#sliceBytes) : rest)
      this.#sliceBytes = this.#hadRequest ? leastBytes : Math.min(2 * this.#sliceBytes, maxBytes)
    }
    this.#isParsing = false
  }
}
