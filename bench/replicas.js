import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from './http-connection.js'
import { campaign } from './service-load.js'

/** @typedef {import('./service-process.js').Server} Server */

/** The replicas of a service on one etcd, each in its own process. */
export class Replicas {
  /** @type {{ server: Server, address: string }[]} */
  #all = []
  #servers
  #store
  #freePort
  #next = 0

  /**
   * @param {import('./service-process.js').Servers} servers
   * @param {string} store
   * @param {() => Promise<number>} freePort
   */
  constructor(servers, store, freePort) {
    this.#servers = servers
    this.#store = store
    this.#freePort = freePort
  }

  /** @param {number} count */
  static async start(count, /** @type {ConstructorParameters<typeof Replicas>} */ ...args) {
    const replicas = new Replicas(...args)
    for (let at = 0; at < count; at++) await replicas.add()
    await replicas.whole(count)
    return replicas
  }

  async add() {
    const address = `http://127.0.0.1:${await this.#freePort()}`
    this.#all.push({ server: await this.#servers.startReplica(this.#store, address), address })
  }

  /** Waits until this many replicas are connected and one of them is active. @param {number} count */
  async whole(count) {
    while ((await this.status())?.replicas.length !== count) await sleep(50)
  }

  /** @returns {Promise<{ active: string | null, replicas: { role: string, address: string }[] } | undefined>} */
  async status() {
    const [first] = this.#all
    const answer = await fetch(`${first?.server.url}/v1/replicas`)
    const status = /** @type {{ active: string | null, replicas: { role: string, address: string }[] }} */ (
      await answer.json()
    )
    return status.active === null ? undefined : status
  }

  /** @returns {Promise<{ active: Server, followers: Server[] }>} */
  async roles() {
    const status = await this.status()
    const active = status?.replicas.find(({ role }) => role === 'active')?.address
    const found = this.#all.find(({ address }) => address === active)
    if (!found) throw new Error('No replica is active.')
    return { active: found.server, followers: this.#all.filter((one) => one !== found).map(({ server }) => server) }
  }

  /** Returns how long after this signal to the active replica another replica grants. @param {NodeJS.Signals} signal */
  async handOverMs(signal) {
    const { active, followers } = await this.roles()
    const [next] = followers
    const group = `after-${signal}-${this.#next++}`
    const connection = await Connection.open(next?.url ?? '')
    const startMs = performance.now()
    const stopped = active.stop(signal)
    for (;;) {
      // Refused while no replica is active. The service holds the request for 2 s first.
      const answer = await campaign(connection, group).catch(() => undefined)
      if (answer !== undefined) break
    }
    const tookMs = performance.now() - startMs
    connection.close()
    await stopped
    this.#all = this.#all.filter(({ server }) => server !== active)
    return tookMs
  }

  async stop() {
    for (const { server } of this.#all) await server.stop()
  }
}
