import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

/** Starts each server in its own process. Data directories are under `folder`. */
export class Servers {
  /** @type {Set<Server>} */
  #running = new Set()
  #folder

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder
  }

  /** @param {'elections' | 'bare'} kind @param {string} [data] */
  start(kind, data = '') {
    return this.#fork([kind, join(this.#folder, data)])
  }

  /** Starts a replica of a service. @param {string} store @param {string} advertise */
  startReplica(store, advertise) {
    return this.#fork(['replica', store, advertise])
  }

  /** @param {string[]} args */
  async #fork(args) {
    const child = fork(join(import.meta.dirname, 'service-server.js'), args, { execArgv: ['--expose-gc'] })
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

export class Server {
  #child
  url

  /** @param {import('node:child_process').ChildProcess} child @param {string} url */
  constructor(child, url) {
    this.#child = child
    this.url = url
  }

  get pid() {
    return this.#child.pid ?? 0
  }

  /** Returns the heap in use and the CPU time used so far. @returns {Promise<{ heapUsed: number, cpuUs: number }>} */
  async usage() {
    this.#child.send('usage')
    const [usage] = /** @type {[{ heapUsed: number, cpuUs: number }]} */ (await once(this.#child, 'message'))
    return usage
  }

  async heapUsed() {
    return (await this.usage()).heapUsed
  }

  /** @param {NodeJS.Signals} [signal] */
  async stop(signal = 'SIGTERM') {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill(signal)
    await exited
  }
}
