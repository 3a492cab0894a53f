import type { Socket } from 'node:net'

/** What is parsed at once of what has arrived. A request has a kilobyte with its token; without one it may have 40 bytes. */
const leastBytes = 1_024
/** The same within a body. */
const mostBytes = 8_192

/**
 * What arrives on a connection of an HTTP server, as its parser gets it: in slices, and nothing while it is held.
 *
 * Node reads 64 KB at once, and parses all of it in one step. These may be more than a thousand requests, each of which takes
 * memory and time before it can be refused, on as many connections as somebody has opened.
 */
export class SocketIntake {
  readonly #socket: Socket
  readonly #pause: () => void
  readonly #resume: () => void
  /** Node's own parser. Undefined where it has not been attached to. */
  #parse: ((chunk: Buffer) => void) | undefined
  /** What has arrived and is not parsed yet. */
  #rest: Buffer | undefined
  #sliceBytes = leastBytes
  #hadRequest = false
  #isParsing = false
  #isHeld = false
  /** Node wants nothing more for now, because answers or a body are not read. */
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
    // Node resumes a connection whenever it hands out a body. The bodies of the requests that wait have all arrived.
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

  /** Comes between the connection and the parser, before anything was read. */
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

  /** The parser has found a request. */
  note(): void {
    this.#hadRequest = true
  }

  /** Nothing is read or parsed until {@link release}. */
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
    while (this.#rest && !this.#isHeld && !this.#isPaused && !this.#socket.destroyed) {
      const rest = this.#rest
      this.#rest = rest.length > this.#sliceBytes ? rest.subarray(this.#sliceBytes) : undefined
      this.#hadRequest = false
      this.#parse?.(this.#rest ? rest.subarray(0, this.#sliceBytes) : rest)
      this.#sliceBytes = this.#hadRequest ? leastBytes : Math.min(2 * this.#sliceBytes, mostBytes)
    }
    this.#isParsing = false
  }
}
