// Many leaders in one process, as cheap as possible: each sends the requests of a candidate as raw patches, and all of
// them share a few connections and one watch. Two cores then carry 1,000 of them and the controller.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'

const [, , count, leaseDuration] = process.argv
const leaseDurationMs = Number(leaseDuration)
/** As many as an elector sends within one lease. */
const renewMs = leaseDurationMs / 3
/** How many start at a time. A fleet does not start within one second. */
const atOnce = 8
/** A request without an answer is canceled after this time, as in an elector. */
const patienceMs = 10_000
/** Few connections, because each costs memory in the API server. */
const connections = 64
const collection = '/apis/tenure.dev/v1alpha1/namespaces/default/multiclusterleases'
const holder = 'bench'

const config = JSON.parse(readFileSync(process.env['KUBECONFIG'] ?? '', 'utf8'))
const { server, 'certificate-authority': caFile } = config.clusters[0].cluster
const { hostname, port } = new URL(server)
const authorization = `Bearer ${config.users[0].user.token}`
const ca = readFileSync(caFile)
const agent = new Agent({ keepAlive: true, maxSockets: connections, ca })

/** One leader in its own election, from its first request on. */
class Leader {
  /** @type {number} when the newest request that was granted had been sent */
  confirmedMs = -Infinity
  lost = 0
  #name = ''
  #key = `${randomUUID()}-0`
  #attempt = randomUUID()
  #id = ''
  #sentMs = 0
  #isCreated = false
  /** @type {{ term: number, version: string } | undefined} */
  #held

  /** @param {string} name */
  constructor(name) {
    this.#name = name
  }

  get isLeading() {
    return performance.now() < this.confirmedMs + leaseDurationMs
  }

  /** Acquires or renews, unless the previous request may still be answered. */
  send() {
    if (waiting.has(this.#id) && performance.now() < this.#sentMs + patienceMs) return
    if (this.#held && !this.isLeading) {
      this.lost += 1
      this.#held = undefined
      this.#attempt = randomUUID()
    }
    waiting.delete(this.#id)
    this.#id = randomUUID()
    waiting.set(this.#id, this)
    this.#sentMs = performance.now()
    const renewTime = new Date().toISOString().replace('Z', '000Z')
    const { term, version } = this.#held ?? { term: null, version: null }
    const claim = {
      holder,
      attempt: this.#attempt,
      leaseDurationMs,
      afterTerm: this.#held ? null : 0,
      expiredVersion: null,
      metadata: this.#held ? null : '{}',
      term,
      version,
      checkpoint: null,
      writeId: this.#id,
    }
    const asked = { id: this.#id, verb: this.#held ? 'renew' : 'acquire', renewTime, timeoutMs: patienceMs, claim }
    const spec = {
      holderIdentity: holder,
      leaseDurationSeconds: leaseDurationMs / 1000,
      renewTime,
      requests: { [this.#key]: asked },
    }
    const path = `${collection}/${this.#name}?fieldValidation=Strict`
    if (this.#isCreated) return call('PATCH', path, { metadata: { managedFields: [{}] }, spec })
    this.#isCreated = true
    const type = { apiVersion: 'tenure.dev/v1alpha1', kind: 'MultiClusterLease' }
    const set = Object.fromEntries(Object.entries(claim).filter(([, value]) => value !== null))
    const requests = { [this.#key]: { ...asked, claim: set } }
    return call('POST', collection, { ...type, metadata: { name: this.#name }, spec: { ...spec, requests } })
  }

  /** @param {{ term: number, version: string } | undefined} granted */
  take(granted) {
    this.#held = granted
    if (granted) this.confirmedMs = this.#sentMs
    else this.#attempt = randomUUID()
  }
}

/** Leaders by the id of the request whose answer they wait for. @type {Map<string, Leader>} */
const waiting = new Map()
const failures = { count: 0, last: '' }
const leaders = Array.from({ length: Number(count) }, (_, index) => new Leader(`fleet-${index}`))

process.on('message', () => {
  const led = leaders.filter((leader) => leader.isLeading).length
  const lost = leaders.reduce((sum, leader) => sum + leader.lost, 0)
  process.send?.({ led, lost, failures })
})
process.on('disconnect', () => process.exit())

void follow()
const starting = leaders.values()
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    for (const leader of starting) {
      leader.send()
      setInterval(() => leader.send(), renewMs)
      while (!leader.isLeading) await sleep(20)
    }
  }),
)
process.send?.('led')

/** @param {string} method @param {string} path @param {unknown} body */
function call(method, path, body) {
  const payload = JSON.stringify(body)
  const headers = {
    authorization,
    'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    'content-length': Buffer.byteLength(payload),
  }
  const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
    response.resume()
    if ((response.statusCode ?? 0) >= 300) failed(`${response.statusCode}`)
  })
  sent.on('error', (error) => failed(error.message))
  sent.end(payload)
}

/** @param {string} why */
function failed(why) {
  failures.count += 1
  failures.last = why
}

/** Watches all resources, and parses only the answers that a leader waits for. */
async function follow() {
  for (;;) {
    await new Promise((resolve) => {
      const path = `${collection}?watch=1&timeoutSeconds=3000`
      request({ hostname, port, path, ca, headers: { authorization } }, (response) => {
        let rest = ''
        response.setEncoding('utf8')
        response.on('data', (/** @type {string} */ chunk) => {
          const lines = (rest + chunk).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) read(line)
        })
        response.on('close', resolve)
      })
        .on('error', resolve)
        .end()
    })
    await sleep(200)
  }
}

/** @param {string} line */
function read(line) {
  const start = line.indexOf('"answers":{')
  if (start === -1) return
  const [, id = '', isGranted] = /"id":"([^"]*)","ok":(true|false)/.exec(line.slice(start, start + 300)) ?? []
  const leader = waiting.get(id)
  if (!leader) return
  waiting.delete(id)
  const { answers } = JSON.parse(line).object.status
  const answer = Object.values(answers).find((one) => one.id === id)
  leader.take(isGranted === 'true' ? answer.record : undefined)
}
