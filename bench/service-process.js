import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

/** Servers in processes of their own, below one folder. */
export class Servers {
  /** @type {Set<Server>} */
  #running = new Set()
  #folder

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder
  }

  /** @param {'elections' | 'bare'} kind @param {string} [data] */
  async start(kind, data = '') {
    const child = fork(join(import.meta.dirname, 'service-server.js'), [kind, join(this.#folder, data)], {
      execArgv: ['--expose-gc'],
    })
    const [{ url }] = /** @type {[{ url: string }]} */ (await once(child, 'message'))
    const server = new Server(child, url)
    this.#running.add(server)
    child.once('exit', () => this.#running.delete(server))
    return server
  }

  async stopAll() {
    await Promise.all([...this.#running].map((server) => server.stop()))
  }
}

class Server {
  #child
  url

  /** @param {import('node:child_process').ChildProcess} child @param {string} url */
  constructor(child, url) {
    this.#child = child
    this.url = url
  }

  /** @returns {Promise<number>} */
  async heapUsed() {
    this.#child.send('memory')
    const [{ heapUsed }] = /** @type {[{ heapUsed: number }]} */ (await once(this.#child, 'message'))
    return heapUsed
  }

  async stop() {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await exited
  }
}
