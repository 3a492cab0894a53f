// A lock with a session, as `consul lock` and the Go client of Consul take it.
import { takeTurns } from './take-turns.js'

/** The shortest that Consul accepts. */
const ttlMs = 10_000

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, identity, tell }) {
  const address = `${url.replace('consul:', 'http:')}/v1`
  const key = `${address}/kv/bench/${election}`
  const put = (/** @type {string} */ target, /** @type {object} */ content = {}) =>
    fetch(target, { method: 'PUT', body: JSON.stringify(content) })
  const openSession = async () => {
    // By default a lock stays closed for 15 s after its session has ended.
    const settings = { TTL: `${ttlMs / 1_000}s`, LockDelay: '0s', Behavior: 'release' }
    const created = await put(`${address}/session/create`, settings)
    const { ID: id } = /** @type {{ ID: string }} */ (await created.json())
    return id
  }
  const acquire = async () => {
    const session = await openSession()
    const renew = async () => {
      const answer = await put(`${address}/session/renew/${session}`).catch(() => undefined)
      if (answer?.status === 404) tell('lost')
    }
    const renewing = setInterval(() => void renew(), ttlMs / 3)
    for (let index = '0'; ;) {
      const answer = await put(`${key}?acquire=${session}`, { identity })
      if (await answer.json()) break
      const found = await fetch(`${key}?index=${index}&wait=30s`)
      index = found.headers.get('x-consul-index') ?? '0'
      const [entry] = /** @type {{ Session?: string }[]} */ (found.status === 200 ? await found.json() : [])
      // A watch returns at once when it has no index yet.
      if (entry?.Session) await fetch(`${key}?index=${index}&wait=30s`)
    }
    return async () => {
      clearInterval(renewing)
      await put(`${key}?release=${session}`)
      await put(`${address}/session/destroy/${session}`)
    }
  }
  return takeTurns(acquire, tell)
}
