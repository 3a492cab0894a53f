import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from 'tenure'

const lookMs = 50

/**
 * The connections of a server. A server that closes waits for all of them, and some would take long: those that nobody
 * uses, those of a reader that has stopped reading, and those that never sent anything, which nothing counts as idle.
 */
export class OpenConnections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #sockets = new Set<Socket>()

  constructor(server: Server, clock: Clock) {
    this.#server = server
    this.#clock = clock
    // Also those of TLS, from before their handshake on.
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
  }

  closeAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Ends connections as they fall idle until `closed` settles, and after `graceMs` all that are left. */
  async drain(closed: Promise<unknown>, graceMs: number): Promise<void> {
    for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy()
    let done = false
    const untilMs = this.#clock.monotonicMs() + graceMs
    const look = () => {
      if (done) return
      // A request that was under way when the server began to close has left its connection open.
      this.#server.closeIdleConnections()
      if (this.#clock.monotonicMs() < untilMs) return void this.#clock.setTimer(lookMs, look)
      this.closeAll()
    }
    look()
    try {
      await closed
    } finally {
      done = true
    }
  }
}
