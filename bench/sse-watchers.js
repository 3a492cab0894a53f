import { once } from 'node:events'
import { connect } from 'node:net'

/** Many readers of one event stream, each on its own connection. */
export class SseWatchers {
  /** @type {import('node:net').Socket[]} */
  #sockets = []
  /** When each reader received the expected event. @type {number[]} */
  #toldMs = []
  /** @type {((toldMs: number[]) => void) | undefined} */
  #allTold

  /** @param {string} url @param {number} count */
  static async open(url, count) {
    const watchers = new SseWatchers()
    const { hostname, port, host, pathname } = new URL(url)
    const request = `GET ${pathname} HTTP/1.1\r\nhost: ${host}\r\naccept: text/event-stream\r\n\r\n`
    // A few at a time, because the accept queue of the server is short.
    for (let opened = 0; opened < count; opened += 100) {
      await Promise.all(
        Array.from({ length: Math.min(100, count - opened) }, async () => {
          const socket = connect({ host: hostname, port: Number(port) })
          await once(socket, 'connect')
          socket.write(request)
          // The initial state, with which every stream starts.
          for (let text = ''; !/data: \{.*\n\n/.test(text);) text += String((await once(socket, 'data'))[0])
          watchers.#add(socket)
        }),
      )
    }
    return watchers
  }

  /** @param {import('node:net').Socket} socket */
  #add(socket) {
    this.#sockets.push(socket)
    socket.on('data', (chunk) => {
      // An event fits into one packet. Comments are not events.
      if (!chunk.includes('data: ')) return
      this.#toldMs.push(performance.now())
      if (this.#toldMs.length === this.#sockets.length) this.#allTold?.(this.#toldMs)
    })
  }

  /** Resolves with the moments at which each reader received the event. @returns {Promise<number[]>} */
  nextEvent() {
    this.#toldMs = []
    return new Promise((resolve) => {
      this.#allTold = resolve
    })
  }

  close() {
    for (const socket of this.#sockets) socket.destroy()
  }
}
