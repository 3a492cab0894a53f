// A well-behaved client: honest-client.mjs URL BARE TOKEN NAME. It renews one lease every 20 ms, whether or not the last
// renewal was answered, and calls a bare server at the same rate. A line on standard input starts the measurement. The
// end of standard input stops the measurement and prints the results.
import { Agent, request } from 'node:http'

const [, , url = '', bare = '', token = '', node = ''] = process.argv
const group = `other-${node}`
const everyMs = 20
const leaseMs = 3_000
const agents = { service: newAgent(), bare: newAgent() }
/** @type {Record<string, number>} */
const statuses = {}
/** @type {number[]} */
const renewalsMs = []
/** @type {number[]} */
const bareMs = []
/** The send times of renewals that are not answered yet. */
const inFlight = /** @type {Set<number>} */ (new Set())
let leasesLost = 0
let term = 0
let isRunning = true

/** A few connections that stay open, like those of a pool. */
function newAgent() {
  return new Agent({ keepAlive: true, maxSockets: 4, scheduling: 'fifo' })
}

/** @param {string} target @param {string} method @param {object} [body] */
function ask(target, method, body) {
  return /** @type {Promise<{ status: number, body: Record<string, any> }>} */ (
    new Promise((resolve, reject) => {
      const headers = {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': 'application/json' }),
      }
      const sent = request(
        target,
        { method, agent: target.startsWith(bare) ? agents.bare : agents.service, headers },
        (answer) => {
          let text = ''
          answer.setEncoding('utf8').on('data', (chunk) => (text += chunk))
          answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text || '{}') }))
        },
      )
      sent.on('error', reject)
      sent.end(body && JSON.stringify(body))
    })
  )
}

async function campaign() {
  for (;;) {
    const claim = { node_id: node, lease_ttl_ms: leaseMs, request_id: node }
    const answer = await ask(`${url}/v1/groups/${group}/campaign`, 'POST', claim).catch(() => undefined)
    if (answer?.body['is_leader']) return void (term = answer.body['leader'].term)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function renew() {
  const claimed = term
  const sentMs = performance.now()
  inFlight.add(sentMs)
  const body = { node_id: node, term: claimed, extend_by_ms: leaseMs }
  const { status } = await ask(`${url}/v1/groups/${group}/renew`, 'POST', body).catch(() => ({ status: 0 }))
  if (!inFlight.delete(sentMs)) return
  renewalsMs.push(performance.now() - sentMs)
  statuses[status] = (statuses[status] ?? 0) + 1
  if (status !== 409 || claimed !== term) return
  leasesLost += 1
  term += 1
  await campaign()
}

async function look() {
  const sentMs = performance.now()
  await ask(bare, 'GET').catch(() => undefined)
  if (isRunning) bareMs.push(performance.now() - sentMs)
}

await campaign()
await Promise.all(Array.from({ length: 4 }, () => Promise.all([renew(), look()])))
console.log('ready')
// Discard everything that was measured before this moment.
process.stdin.on('data', () => {
  renewalsMs.length = 0
  inFlight.clear()
  bareMs.length = 0
})
process.stdin.on('end', () => {
  isRunning = false
  for (const sentMs of inFlight) renewalsMs.push(performance.now() - sentMs)
  inFlight.clear()
  console.log(JSON.stringify({ renewalsMs, bareMs, leasesLost, statuses }))
  process.exit()
})
setInterval(() => {
  void renew()
  void look()
}, everyMs)
