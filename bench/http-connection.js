import { once } from 'node:events'
import { connect } from 'node:net'

/**
 * One keep-alive connection that sends a request and waits for its answer. It does as little as possible, so that the
 * measurement reflects the server.
 */
export class Connection {
  #socket
  #host
  /** @type {Buffer[]} */
  #chunks = []
  #length = 0
  /** @type {((body: string) => void) | undefined} */
  #answered
  /** @type {((error: Error) => void) | undefined} */
  #failed

  /** @param {import('node:net').Socket} socket @param {string} host */
  constructor(socket, host) {
    this.#socket = socket
    this.#host = host
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('error', (error) => this.#failed?.(error))
    socket.on('close', () => this.#failed?.(new Error('The server closed the connection.')))
  }

  /** @param {string} url */
  static async open(url) {
    const { hostname, port, host } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), noDelay: true })
    await once(socket, 'connect')
    return new Connection(socket, host)
  }

  /**
   * Returns the body of the answer. A status other than 200 is an error.
   * @param {string} path
   * @param {string} body
   * @returns {Promise<string>}
   */
  post(path, body) {
    this.#socket.write(
      `POST ${path} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
    return new Promise((resolve, reject) => {
      this.#answered = resolve
      this.#failed = reject
    })
  }

  /** @param {Buffer} chunk */
  #read(chunk) {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const whole = this.#chunks.length === 1 ? chunk : undefined
    const head = (whole ?? this.#chunks[0] ?? chunk).toString('latin1', 0, 2_048)
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    const size = /\r\ncontent-length: (\d+)/i.exec(head)
    if (!size) return this.#failed?.(new Error(`The answer has no content-length: ${head}`))
    if (this.#length < end + 4 + Number(size[1])) return
    const answer = whole ?? Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#length = 0
    const body = answer.toString('utf8', end + 4)
    if (head.startsWith('HTTP/1.1 200')) this.#answered?.(body)
    else this.#failed?.(new Error(`${head.slice(0, end)} ${body}`))
  }

  close() {
    this.#failed = undefined
    this.#socket.destroy()
  }
}

/**
 * Measures the answers per second. Every connection sends its next request once the previous one has been answered.
 * @param {readonly Connection[]} connections
 * @param {number} forMs
 * @param {(connection: Connection, index: number) => Promise<unknown>} send
 * @returns {Promise<{ perSecond: number, latenciesMs: number[] }>}
 */
export async function drive(connections, forMs, send) {
  const startMs = performance.now()
  /** @type {number[]} */
  const latenciesMs = []
  await Promise.all(
    connections.map(async (connection, index) => {
      for (let sentMs = startMs; sentMs < startMs + forMs;) {
        await send(connection, index)
        const nowMs = performance.now()
        latenciesMs.push(nowMs - sentMs)
        sentMs = nowMs
      }
    }),
  )
  return { perSecond: (latenciesMs.length * 1e3) / (performance.now() - startMs), latenciesMs }
}

/** @param {string} url @param {number} count */
export function openMany(url, count) {
  return Promise.all(Array.from({ length: count }, () => Connection.open(url)))
}
