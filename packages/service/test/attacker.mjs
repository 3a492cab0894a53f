// One client that takes more than its share: attacker.mjs NAME URL [TOKEN]. It prints "ready" once the attack has begun.
// It ends when standard input ends, and then prints the number of responses by status.
import { connect } from 'node:net'

const [, , name = '', url = '', token = ''] = process.argv
const { hostname, port, host } = new URL(url)
const node = 'attacker'
/** @type {Record<string, number>} */
const statuses = {}

/**
 * @param {string} method @param {string} path
 * @param {{ body?: object | undefined, headers?: readonly string[], bearer?: string }} [more]
 */
function bytesOf(method, path, { body, headers = [], bearer = token } = {}) {
  const text = body === undefined ? '' : JSON.stringify(body)
  const head = [
    `${method} ${path} HTTP/1.1`,
    `host: ${host}`,
    ...(bearer ? [`authorization: Bearer ${bearer}`] : []),
    ...(body === undefined ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(text)}`]),
    ...headers,
  ]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${text}`)
}

/** A connection that sends the same bytes again once all of them are answered, and reconnects when it is cut. */
class Pipe {
  #bytes
  #depth
  #socket
  #rest = ''
  #missing = 0
  #unanswered = 0

  /** @param {Buffer} bytes one request @param {number} depth how many of them are sent at once */
  constructor(bytes, depth) {
    this.#bytes = Buffer.concat(Array.from({ length: depth }, () => bytes))
    this.#depth = depth
    this.#socket = this.#open()
  }

  #open() {
    this.#rest = ''
    this.#missing = 0
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on('connect', () => this.#send())
    socket.on('data', (chunk) => this.#read(chunk.toString('latin1')))
    socket.on('error', () => {})
    socket.on('close', () => setTimeout(() => (this.#socket = this.#open()), 10))
    return socket
  }

  #send() {
    this.#unanswered = this.#depth
    this.#socket.write(this.#bytes)
  }

  /** @param {string} text */
  #read(text) {
    this.#rest += text
    for (;;) {
      if (this.#missing > 0) {
        const taken = Math.min(this.#missing, this.#rest.length)
        this.#rest = this.#rest.slice(taken)
        this.#missing -= taken
        if (this.#missing > 0) return
        this.#answered()
        continue
      }
      const end = this.#rest.indexOf('\r\n\r\n')
      if (end < 0) return
      const status = this.#rest.slice(9, 12)
      statuses[status] = (statuses[status] ?? 0) + 1
      this.#missing = Number(/content-length: (\d+)/i.exec(this.#rest.slice(0, end))?.[1] ?? 0)
      this.#rest = this.#rest.slice(end + 4)
      if (this.#missing === 0) this.#answered()
    }
  }

  #answered() {
    this.#unanswered -= 1
    if (this.#unanswered === 0) this.#send()
  }
}

/** @param {string} method @param {string} path @param {object} [body] */
async function ask(method, path, body) {
  for (;;) {
    const answer = await fetch(url + path, {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (answer.status !== 429 && answer.status < 500) return JSON.parse(text)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** @param {number} count @param {(index: number) => Promise<unknown>} each */
async function inParallel(count, each) {
  let next = 0
  const run = async () => {
    while (next < count) await each(next++)
  }
  await Promise.all(Array.from({ length: 32 }, run))
}

/** @param {string} group @param {object} [metadata] */
const campaign = (group, metadata) =>
  ask('POST', `/v1/groups/${group}/campaign`, { node_id: node, lease_ttl_ms: 60_000, ...(metadata && { metadata }) })

/** @param {number} connections @param {number} depth @param {() => Buffer} request */
function pipes(connections, depth, request) {
  return Array.from({ length: connections }, () => new Pipe(request(), depth))
}

const groups = Array.from({ length: 50 }, (_, index) => `mine-${index}`)
const renewal = () =>
  bytesOf('POST', '/v1/groups/mine-0/renew', { body: { node_id: node, term: 1, extend_by_ms: 60_000 } })

/** @type {Record<string, () => Promise<void>>} */
const attacks = {
  async none() {},

  /** Streams of all groups with renewals, and batches that renew all groups. */
  async fanout() {
    await inParallel(groups.length, (index) => campaign(groups[index] ?? ''))
    const watch = bytesOf('GET', `/v1/watch?groups=${groups.join()}&renewals=true`, {
      headers: ['accept: text/event-stream'],
    })
    let open = 0
    await inParallel(1_900, async () => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.on('error', () => {})
      socket.write(watch)
      await new Promise((resolve) => socket.once('data', resolve).once('close', resolve))
      socket.on('data', () => {})
      open += 1
    })
    statuses['streams'] = open
    const renewals = groups.map((group_id) => ({ group_id, term: 1, extend_by_ms: 60_000 }))
    pipes(4, 1, () => bytesOf('POST', '/v1/renew', { body: { node_id: node, renewals } }))
  },

  /** Streams of one group whose leader changes constantly. */
  async flapping() {
    const watch = bytesOf('GET', '/v1/groups/mine-0/watch', { headers: ['accept: text/event-stream'] })
    await inParallel(1_900, async () => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.on('error', () => {})
      socket.write(watch)
      await new Promise((resolve) => socket.once('data', resolve).once('close', resolve))
      socket.on('data', () => {})
    })
    void (async () => {
      for (;;) {
        const { leader } = await campaign('mine-0')
        await ask('POST', '/v1/groups/mine-0/resign', { node_id: node, term: leader?.term ?? 0 })
      }
    })()
  },

  async pipelined() {
    await campaign('mine-0')
    pipes(48, 200, renewal)
  },

  /** Sends as many requests as a connection may have, on many connections, and reconnects when one is cut. */
  async 'pipelined, too deep'() {
    await campaign('mine-0')
    pipes(48, 2_000, () => bytesOf('GET', '/v1/groups/mine-0/leader'))
  },

  async connections() {
    await campaign('mine-0')
    pipes(1_000, 1, renewal)
  },

  /** Opens as many idle connections as the service allows, and opens each again when it is closed. */
  async 'held connections'() {
    let open = 0
    const hold = () => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.on('connect', () => (statuses['connections'] = Math.max(statuses['connections'] ?? 0, ++open)))
      socket.on('error', () => {})
      socket.on('close', () => {
        open -= 1
        setTimeout(hold, 10)
      })
    }
    for (let count = 0; count < 4_000; count++) hold()
    while ((statuses['connections'] ?? 0) < 1_000) await new Promise((resolve) => setTimeout(resolve, 10))
  },

  async anonymous() {
    pipes(48, 200, () => bytesOf('GET', '/healthz', { bearer: '' }))
  },

  /** The shortest requests, on new connections. Each packet holds a thousand of them. */
  async 'anonymous, new connections'() {
    pipes(200, 2_000, () => bytesOf('GET', '/healthz', { bearer: '' }))
  },

  async 'anonymous, refused'() {
    pipes(48, 200, () => bytesOf('GET', '/v1/groups/other-kept/leader', { bearer: '' }))
  },

  async 'forged tokens'() {
    const forged = `${token.slice(0, token.lastIndexOf('.') + 1)}${'A'.repeat(86)}`
    pipes(48, 50, () => bytesOf('GET', '/v1/groups/other-kept/leader', { bearer: forged }))
  },

  /** A thousand groups with metadata and checkpoints that are as expensive as possible. */
  async polls() {
    const many = Array.from({ length: 1_000 }, (_, index) => `mine-${index}`)
    const metadata = { text: '\u0001'.repeat(680) }
    await inParallel(many.length, async (index) => {
      const path = `/v1/groups/${many[index]}`
      const { leader } = await campaign(many[index] ?? '', metadata)
      const body = { node_id: node, term: leader.term, extend_by_ms: 60_000 }
      // The largest checkpoint that fits once it is encoded.
      for (const checkpoint of ['\u0001'.repeat(4_096), '\u0001'.repeat(1_300), '\u0001'.repeat(680)]) {
        if ((await ask('POST', `${path}/renew`, { ...body, checkpoint })).ok) break
      }
    })
    pipes(16, 1, () => bytesOf('GET', `/v1/watch?groups=${many.join()}&wait_ms=0`))
  },

  /** Lists the latest changes. For each of these requests, the service scans all changes that it keeps. */
  async changes() {
    await inParallel(8_192, async (index) => {
      const group = `mine-${index % 512}`
      const { leader } = await campaign(group)
      await ask('POST', `/v1/groups/${group}/resign`, { node_id: node, term: leader.term })
    })
    pipes(48, 20, () => bytesOf('GET', '/v1/changes?groups=mine-none'))
  },

  /** Each grant in a shared group asks for a next term far ahead. */
  async 'far terms'() {
    await campaign('mine-0')
    pipes(16, 10, () =>
      bytesOf('POST', '/v1/groups/mine-far/campaign', {
        body: { node_id: node, lease_ttl_ms: 1_000, after_term: 2 ** 32 },
      }),
    )
  },

  /** Creates groups as fast as the service allows, each as large as allowed. */
  async 'new groups'() {
    const metadata = { text: 'x'.repeat(4_000) }
    let next = 0
    const lane = async () => {
      for (;;) {
        const group = `mine-${next++}`
        const body = { node_id: node, lease_ttl_ms: 60_000, metadata }
        const answer = await fetch(`${url}/v1/groups/${group}/campaign`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
        statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
        const { leader } = /** @type {{ leader?: { term: number } }} */ (await answer.json())
        if (leader) {
          const checkpoint = 'x'.repeat(4_000)
          await ask('POST', `/v1/groups/${group}/renew`, {
            node_id: node,
            term: leader.term,
            extend_by_ms: 60_000,
            checkpoint,
          })
        }
      }
    }
    for (let count = 0; count < 32; count++) void lane()
  },

  async openapi() {
    pipes(48, 20, () => bytesOf('GET', '/openapi.json'))
  },

  async members() {
    await campaign('mine-0')
    const metadata = { text: 'x'.repeat(4_000) }
    await inParallel(1_000, (index) =>
      ask('POST', '/v1/groups/mine-0/heartbeat', { node_id: `${node}-${index}`, metadata }),
    )
    pipes(16, 4, () => bytesOf('GET', '/v1/groups/mine-0/members'))
  },
}

process.stdin.resume()
process.stdin.on('end', () => {
  console.log(JSON.stringify(statuses))
  process.exit()
})
const attack = attacks[name]
if (!attack) throw new Error(`There is no attack "${name}", only ${Object.keys(attacks).join(', ')}.`)
await attack()
console.log('ready')
