import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ask, campaign, serve, temporaryFolder, type Served } from '../../tenure.ts'

async function stop({ child, ended }: Served, signal: NodeJS.Signals = 'SIGTERM') {
  const startedAtMs = performance.now()
  child.kill(signal)
  return { code: await ended, tookMs: performance.now() - startedAtMs }
}

const unfinished = (host: string) =>
  `POST /v1/renew HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{`

test.each(['SIGTERM', 'SIGINT'] as const)(
  'the service exits with 0 after %s, and its grants are still valid after a restart',
  async (signal) => {
    const folder = temporaryFolder()
    const first = await serve(folder)
    const granted = await campaign(first.url, 'jobs', 'a')
    expect(granted).toMatchObject({ body: { is_leader: true, leader: { term: 1 } } })
    expect(await stop(first, signal)).toMatchObject({ code: 0 })
    const second = await serve(folder)
    expect(await ask(`${second.url}/v1/groups/jobs/leader`)).toMatchObject({
      body: { leader: { node_id: 'a', term: 1 }, cluster_id: granted.body['cluster_id'] },
    })
    expect(await campaign(second.url, 'jobs', 'b')).toMatchObject({ body: { is_leader: false } })
  },
)

test('a stopping service answers waiting requests and ends streams', async () => {
  const served = await serve(temporaryFolder())
  const { url } = served
  await campaign(url, 'jobs', 'a')
  const watch = `${url}/v1/groups/jobs/watch`
  const { body } = await ask(watch)
  const stream = await fetch(watch, { headers: { accept: 'text/event-stream' } })
  const text = stream.text()
  const poll = ask(`${watch}?cursor=${String(body['cursor'])}&wait_ms=60000`)
  const waiting = campaign(url, 'jobs', 'b', { wait_ms: 60_000 })
  await vi.waitUntil(async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text()
    return /^tenure_watchers 2$/m.test(metrics) && /^tenure_waiting_campaigns 1$/m.test(metrics)
  })
  const { code, tookMs } = await stop(served)
  expect(code).toBe(0)
  expect(tookMs).toBeLessThan(4_000)
  expect(await waiting).toMatchObject({ status: 200, body: { is_leader: false, leader: { node_id: 'a' } } })
  expect(await poll).toMatchObject({ status: 200, body: { events: [], cursor: expect.any(String) } })
  expect(await text).toContain('"node_id":"a"')
})

test('a thousand idle connections, and some that never sent anything, do not delay the stop', async () => {
  const served = await serve(temporaryFolder())
  const { hostname, port } = new URL(served.url)
  const sockets = Array.from({ length: 1_000 }, () => connect(Number(port), hostname))
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
  for (const socket of sockets) socket.on('error', () => {})
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  const used = sockets.slice(0, 900)
  await Promise.all(
    used.map((socket) => {
      socket.write(`GET /healthz HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`)
      return once(socket, 'data')
    }),
  )
  const closed = Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
  const { code, tookMs } = await stop(served)
  expect(code).toBe(0)
  expect(tookMs).toBeLessThan(4_000)
  await closed
})

test('a stopping service waits a few seconds for a request that arrives slowly, but no longer', async () => {
  const served = await serve(temporaryFolder())
  const { hostname, port } = new URL(served.url)
  const slow = connect(Number(port), hostname)
  slow.on('error', () => {})
  await once(slow, 'connect')
  slow.write(unfinished(hostname))
  await ask(`${served.url}/healthz`)
  const { code, tookMs } = await stop(served)
  expect(code).toBe(0)
  expect(tookMs).toBeGreaterThan(3_000)
  expect(tookMs).toBeLessThan(9_000)
})

test('a second signal ends the service at once, with the exit status of that signal', async () => {
  const served = await serve(temporaryFolder())
  const { hostname, port } = new URL(served.url)
  const slow = connect(Number(port), hostname)
  slow.on('error', () => {})
  await once(slow, 'connect')
  slow.write(unfinished(hostname))
  await ask(`${served.url}/healthz`)
  served.child.kill('SIGTERM')
  await vi.waitUntil(() => served.lines().some(({ msg }) => msg === 'stopping'))
  expect(await stop(served, 'SIGINT')).toMatchObject({ code: 'SIGINT' })
})

test('every request gets an answer or a closed connection when a service stops under load, and no grant is lost', async () => {
  const folder = temporaryFolder()
  const served = await serve(folder)
  const agent = new Agent({ keepAlive: true })
  onTestFinished(() => agent.destroy())
  const strange: unknown[] = []
  const granted = new Map<string, number>()
  let count = 0
  const stopped = new AbortController()
  const client = async (index: number) => {
    while (!stopped.signal.aborted) {
      const group = `group-${index}-${count++}`
      const answer = await post(agent, `${served.url}/v1/groups/${group}/campaign`, {
        node_id: 'a',
        lease_ttl_ms: 60_000,
      })
      if (answer === 'closed') return
      const { is_leader: isLeader, error } = answer.body
      if (answer.status === 200 && isLeader === true) granted.set(group, 1)
      else if (answer.status !== 503 || error !== 'BACKEND_UNAVAILABLE') strange.push(answer)
    }
  }
  const clients = Array.from({ length: 32 }, (_, index) => client(index))
  await vi.waitUntil(() => granted.size > 500, { timeout: 10_000 })
  const { code } = await stop(served)
  stopped.abort()
  await Promise.all(clients)
  expect({ code, strange }).toEqual({ code: 0, strange: [] })

  const again = await serve(folder)
  const lost: string[] = []
  for (const group of granted.keys()) {
    const { body } = await ask(`${again.url}/v1/groups/${group}/leader`)
    if ((body['leader'] as { term: number } | null)?.term !== 1) lost.push(group)
  }
  expect(lost).toEqual([])
})

interface Posted {
  readonly status: number
  readonly body: Record<string, unknown>
}

/** Sends one request without retries, and returns its outcome. A truncated answer counts as no answer. */
async function post(agent: Agent, url: string, body: object): Promise<Posted | 'closed'> {
  const text = JSON.stringify(body)
  const sent = request(url, {
    agent,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
  })
  sent.end(text)
  try {
    const [response] = (await Promise.race([
      once(sent, 'response'),
      delay(20_000, undefined, { ref: false }).then(() => Promise.reject(new Error('no answer'))),
    ])) as [import('node:http').IncomingMessage]
    let answer = ''
    for await (const chunk of response.setEncoding('utf8')) answer += String(chunk)
    return { status: response.statusCode ?? 0, body: JSON.parse(answer) as Record<string, unknown> }
  } catch (error) {
    if (['ECONNRESET', 'ECONNREFUSED', 'EPIPE'].includes(String((error as NodeJS.ErrnoException).code))) return 'closed'
    throw error
  }
}
