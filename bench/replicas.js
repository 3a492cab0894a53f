import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from './http-connection.js'
import { campaign } from './service-load.js'

/** @typedef {import('./service-process.js').Server} Server */

/** How long a client waits for one answer. A service without an active replica refuses after 2 s. */
const patienceMs = 5_000

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

  /** Waits until every replica is ready, which means that it could take over with the groups that it has in memory. */
  async ready() {
    for (const { server } of this.#all) while (!(await isReady(server))) await sleep(100)
  }

  /**
   * Restarts one replica after another, the active one last, as an operator does. Meanwhile a client requests grants,
   * and switches to another replica each time a request is refused. Returns the longest time between two grants.
   */
  async rollingRestartMs() {
    const { active, followers } = await this.roles()
    const client = new RestlessClient(() => this.#all.map(({ server }) => server))
    const grants = client.run()
    for (const server of [...followers, active]) {
      this.#all = this.#all.filter((one) => one.server !== server)
      await server.stop('SIGTERM')
      await this.add()
      await this.ready()
    }
    client.stop()
    return grants
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

  /**
   * Returns the time from sending this signal to the active replica until another replica grants. @param
   * {NodeJS.Signals} signal
   */
  async handOverMs(signal) {
    const { active, followers } = await this.roles()
    const [next] = followers
    const group = `after-${signal}-${this.#next++}`
    const connection = await Connection.open(next?.url ?? '')
    const startMs = performance.now()
    const stopped = active.stop(signal)
    for (;;) {
      // The service refuses while no replica is active. It holds the request for 2 s first.
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

/** @param {Server} server */
async function isReady(server) {
  try {
    return (await fetch(`${server.url}/readyz`)).ok
  } catch {
    return false
  }
}

/** A client that requests one grant after another, from any replica that answers. */
class RestlessClient {
  #servers
  /** @type {{ server: Server, connection: Connection } | undefined} */
  #current
  #isOver = false
  #granted = 0

  /** @param {() => Server[]} servers */
  constructor(servers) {
    this.#servers = servers
  }

  /** Returns the longest time between two grants once the client has stopped. */
  async run() {
    let [longestMs, lastMs] = [0, performance.now()]
    while (!this.#isOver) {
      const answer = await this.#ask().catch(() => undefined)
      if (answer === undefined) this.#leave()
      else {
        longestMs = Math.max(longestMs, performance.now() - lastMs)
        lastMs = performance.now()
      }
      await sleep(5)
    }
    this.#leave()
    return Math.max(longestMs, performance.now() - lastMs)
  }

  stop() {
    this.#isOver = true
  }

  #leave() {
    this.#current?.connection.close()
    this.#current = undefined
  }

  async #ask() {
    const servers = this.#servers()
    // A load balancer sends nothing more to a server that is about to stop.
    if (this.#current && !servers.includes(this.#current.server)) this.#leave()
    const server = servers[this.#granted++ % servers.length]
    this.#current ??= server && { server, connection: await Connection.open(server.url) }
    const answer = this.#current && campaign(this.#current.connection, `restless-${this.#granted}`)
    // A connection that was closed between two requests gives no answer.
    return Promise.race([answer, sleep(patienceMs)])
  }
}
