import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { createServer as createHttpServer, get, type IncomingMessage } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { fileStore } from 'tenure/stores/file'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ask, linesOf, run, serve, temporaryFolder, tenure, type Answer, type Spawned } from '../../tenure.ts'

interface Sidecar extends Spawned {
  readonly url: string
  ask(path: string): Promise<Answer>
}

/** Starts a sidecar and waits until it answers. */
async function sidecar(store: string, identity: string, ...more: string[]): Promise<Sidecar> {
  const args = ['sidecar', 'jobs', '--store', store, '--listen', '127.0.0.1:0', '--json', '--identity', identity]
  const spawned = tenure([...args, ...more])
  const started = () => linesOf(spawned.output.error).find(({ url }) => url !== undefined)
  const line = await vi.waitUntil(started, { timeout: 20_000, interval: 20 })
  const url = String(line['url'])
  return { ...spawned, url, ask: (path) => ask(`${url}${path}`) }
}

const leads = (one: Sidecar) => expect.poll(async () => (await one.ask('/is-leader')).status, patience).toBe(200)
const patience = { timeout: 20_000, interval: 20 }

/** Returns the status of an answer on a Unix socket. */
async function statusOn(socketPath: string, path: string): Promise<number | undefined> {
  const [answer] = (await once(get({ socketPath, path, agent: false }), 'response')) as [IncomingMessage]
  answer.resume()
  return answer.statusCode
}

const held = {
  node_id: 'pod-b',
  attempt: 'b.1',
  term: 1,
  lease_ttl_ms: 60_000,
  lease_remaining_ms: 60_000,
  acquired_at_ms: 0,
  renewed_at_ms: 0,
  metadata: {},
  checkpoint: '',
  version: '1',
}

describe('tenure sidecar', () => {
  test('a sidecar reports whether it leads, who leads, and that it is healthy, and another sidecar takes over when it stops', async () => {
    const store = pathToFileURL(temporaryFolder()).href
    const first = await sidecar(store, 'pod-a', '--ttl', '3s', '--metadata', 'ip=10.0.0.1')
    await leads(first)
    const second = await sidecar(store, 'pod-b', '--ttl', '3s')
    const leader = {
      node_id: 'pod-a',
      term: 1,
      lease_remaining_ms: expect.any(Number) as number,
      metadata: { ip: '10.0.0.1' },
    }
    expect(await first.ask('/leader')).toMatchObject({
      status: 200,
      body: { election: 'jobs', node_id: 'pod-a', is_leader: true, leader },
    })
    await expect
      .poll(() => second.ask('/leader'), patience)
      .toMatchObject({ status: 200, body: { node_id: 'pod-b', is_leader: false, leader } })
    expect(await second.ask('/is-leader')).toMatchObject({ status: 503, body: { is_leader: false } })
    expect(await second.ask('/healthz')).toMatchObject({ status: 200, body: { ok: true } })
    expect(await second.ask('/nothing')).toMatchObject({ status: 404, body: { ok: false, error: 'NOT_FOUND' } })
    expect((await second.ask('/leader')).headers.get('cache-control')).toBe('no-store')
    for (const [one, value] of [
      [first, 1],
      [second, 0],
    ] as const) {
      const response = await fetch(`${one.url}/metrics`)
      expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4;/)
      expect(await response.text()).toContain(`\nleader_election_master_status{name="jobs"} ${value}\n`)
    }
    first.child.kill('SIGTERM')
    await leads(second)
    expect(await first.ended).toBe(0)
    expect(await second.ask('/leader')).toMatchObject({ body: { leader: { node_id: 'pod-b', term: 2 } } })
    expect(first.output.out).toBe('')
  })

  test.skipIf(process.platform === 'win32')(
    'a sidecar answers its own user on a Unix socket, and replaces one that a killed sidecar left behind',
    async () => {
      const store = pathToFileURL(temporaryFolder()).href
      const path = join(temporaryFolder(), 'jobs.sock')
      const first = await sidecar(store, 'pod-a', '--listen', `unix:${path}`, '--ttl', '3s')
      expect(first.url).toBe(`unix:${path}`)
      expect(statSync(path).mode & 0o777).toBe(0o600)
      await expect.poll(() => statusOn(path, '/is-leader'), patience).toBe(200)
      const beside = run(['sidecar', 'other', '--store', store, '--listen', `unix:${path}`])
      expect(await beside).toMatchObject({
        code: 69,
        error: expect.stringContaining('another program is listening there') as string,
      })
      expect(await statusOn(path, '/healthz')).toBe(200)
      first.child.kill('SIGKILL')
      await first.ended
      expect(existsSync(path)).toBe(true)
      const second = await sidecar(store, 'pod-b', '--listen', `unix:${path}?mode=0660`, '--ttl', '3s')
      expect(statSync(path).mode & 0o777).toBe(0o660)
      await expect.poll(() => statusOn(path, '/is-leader'), patience).toBe(200)
      second.child.kill('SIGTERM')
      expect(await second.ended).toBe(0)
      expect(existsSync(path)).toBe(false)
    },
  )

  test('a sidecar with --metrics serves its metrics on that address and nothing else', async () => {
    const one = await sidecar(pathToFileURL(temporaryFolder()).href, 'pod-a', '--metrics', '0')
    await leads(one)
    const [line] = linesOf(one.output.error).filter(({ metrics }) => metrics !== undefined)
    const url = String(line?.['metrics'])
    expect(new URL(url).hostname).toBe('127.0.0.1')
    expect(url).not.toBe(one.url)
    const text = await (await fetch(`${url}/metrics`)).text()
    expect(text).toContain('\nleader_election_master_status{name="jobs"} 1\n')
    expect(text).toContain('\ntenure_build_info{version="')
    expect((await ask(`${url}/leader`)).status).toBe(404)
    one.child.kill('SIGTERM')
    expect(await one.ended).toBe(0)
  })

  test('a sidecar releases the lease only after its last answer has expired', async () => {
    const directory = temporaryFolder()
    const one = await sidecar(pathToFileURL(directory).href, 'pod-a', '--ttl', '3s')
    await leads(one)
    const watching = fileStore({ directory })
    onTestFinished(() => watching.close?.())
    const askedAtMs = performance.now()
    const { body } = await one.ask('/leader')
    const { lease_remaining_ms } = body['leader'] as { lease_remaining_ms: number }
    one.child.kill('SIGTERM')
    await expect.poll(async () => (await one.ask('/is-leader')).status, patience).toBe(503)
    expect((await one.ask('/leader')).body).toMatchObject({ is_leader: false, leader: null })
    for await (const record of watching.watch?.('jobs', { signal: new AbortController().signal }) ?? []) {
      if (record?.released) break
    }
    expect(performance.now() - askedAtMs).toBeGreaterThan(lease_remaining_ms)
    expect(await one.ended).toBe(0)
  })

  test('a second signal ends a sidecar at once', async () => {
    const one = await sidecar(pathToFileURL(temporaryFolder()).href, 'pod-a', '--ttl', '10m')
    await leads(one)
    await one.ask('/leader')
    one.child.kill('SIGTERM')
    await vi.waitUntil(() => one.output.error.includes('stopping on SIGTERM'), patience)
    one.child.kill('SIGTERM')
    expect(await one.ended).toBe(143)
  })

  test('a sidecar campaigns in a service, and keeps trying while the service is not up yet', async () => {
    const folder = temporaryFolder()
    const first = await serve(folder)
    first.child.kill('SIGTERM')
    await first.ended
    const one = await sidecar(first.url, 'pod-a', '--ttl', '3s')
    await vi.waitUntil(() => one.output.error.includes('Nothing is listening there'), patience)
    expect(await one.ask('/leader')).toMatchObject({ status: 200, body: { is_leader: false, leader: null } })
    await serve(folder, ['--listen', new URL(first.url).host])
    await leads(one)
  })

  test('a sidecar logs the same error once a minute, and again after the store has answered', async () => {
    let asked = 0
    let isOpen = false
    const store = createHttpServer((_, response) => {
      asked += 1
      const body = isOpen
        ? { leader: held, is_leader: false, highest_term: 1 }
        : { ok: false, error: 'FORBIDDEN', message: 'Not for you.' }
      response.writeHead(isOpen ? 200 : 403, { 'content-type': 'application/json', 'tenure-cluster-id': 'c' })
      response.end(JSON.stringify(body))
    }).listen(0, '127.0.0.1')
    onTestFinished(() => {
      store.close()
      store.closeAllConnections()
    })
    await once(store, 'listening')
    const one = await sidecar(`http://127.0.0.1:${(store.address() as AddressInfo).port}`, 'pod-a', '--ttl', '1s')
    const troubles = () => linesOf(one.output.error).filter(({ level }) => level === 'error').length
    const askedMore = async (times: number) => {
      const until = asked + times
      await vi.waitUntil(() => asked >= until, patience)
    }
    await askedMore(5)
    expect(troubles()).toBe(1)
    isOpen = true
    await vi.waitUntil(() => one.output.error.includes('pod-b leads'), patience)
    const answers = () => one.output.error.split('the store answers again').length - 1
    expect(answers()).toBe(1)
    isOpen = false
    await vi.waitUntil(() => troubles() >= 2, patience)
    // First its watch ends, then it polls, and that also fails.
    await askedMore(5)
    isOpen = true
    // The leader is unchanged, so nothing else is logged.
    await vi.waitUntil(() => answers() === 2, patience)
  })

  test('a sidecar exits with 69 when its address is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const args = ['sidecar', 'jobs', '--store', pathToFileURL(temporaryFolder()).href, '--listen', address]
    expect(await run(args)).toMatchObject({
      code: 69,
      error: expect.stringContaining(`cannot listen on ${address}: another program is listening there.`) as string,
    })
  })

  test('a sidecar exits with 2 when its timings cannot be safe', async () => {
    const { code, error } = await run(['sidecar', 'jobs', '--store', 'memory:', '--ttl', '50ms'])
    expect(code).toBe(2)
    expect(error).toMatch(/^tenure: --ttl must be 100ms or more, not 50ms\.\n$/)
  })
})
