/** Helpers that attack a service with raw bytes. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { expect } from 'vitest'
import { errorStatus } from '../src/common/errors.ts'

export function open(url: string): Socket {
  const { hostname, port, protocol } = new URL(url)
  const at = { host: hostname, port: Number(port) }
  const socket = protocol === 'https:' ? connectTls({ ...at, rejectUnauthorized: false }) : connectTcp(at)
  // A write to a peer that has closed the connection emits an error, which does not matter here.
  socket.on('error', () => {})
  return socket
}

export function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve()
    else socket.once('close', () => resolve())
  })
}

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  /** The body as text. `body` holds the parsed body if it is JSON. */
  readonly text: string
  readonly body: Record<string, unknown>
}

/** Every response on a connection until the connection is closed, or until `enough` responses are complete. */
export function answers(socket: Socket, enough: number, timeoutMs = 10_000): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    const found: Answer[] = []
    let rest: Buffer = Buffer.alloc(0)
    const late = setTimeout(() => {
      socket.destroy()
      reject(new Error(`no complete response within ${timeoutMs} ms, only: ${rest.toString().slice(0, 300)}`))
    }, timeoutMs)
    const done = () => {
      clearTimeout(late)
      socket.destroy()
      resolve(found)
    }
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk])
      for (let next = parse(rest); next; next = parse(rest)) {
        found.push(next.answer)
        rest = next.rest
      }
      if (found.length >= enough) done()
    })
    socket.once('close', done)
  })
}

/** Sends these bytes on a dedicated connection. Returns undefined if the connection was closed without a response. */
export async function send(url: string, bytes: string | Buffer): Promise<Answer | undefined> {
  const socket = open(url)
  socket.write(bytes)
  return (await answers(socket, 1))[0]
}

/** Parses the first response. Returns undefined if it is not complete yet. */
function parse(received: Buffer): { answer: Answer; rest: Buffer } | undefined {
  const end = received.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = received.subarray(0, end).toString().split('\r\n')
  const headers = new Map(lines.map((line) => [line.split(':')[0]?.toLowerCase() ?? '', line.replace(/^.*?: /, '')]))
  const length = Number(headers.get('content-length') ?? 0)
  const content = received.subarray(end + 4, end + 4 + length)
  if (content.length < length) return undefined
  const text = content.toString()
  const isJson = headers.get('content-type')?.startsWith('application/json') && text !== ''
  const body = isJson ? (JSON.parse(text) as Record<string, unknown>) : {}
  return {
    answer: { status: Number(first.split(' ')[1]), headers, text, body },
    rest: received.subarray(end + 4 + length),
  }
}

/** A request as bytes. `headers` has one entry per line. */
export function request(url: string, line: string, headers: readonly string[] = [], body?: string | Buffer): Buffer {
  const head = [
    `${line} HTTP/1.1`,
    `Host: ${new URL(url).host}`,
    ...(body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
    ...headers,
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.from(body ?? '')])
}

export const json = 'Content-Type: application/json'
export const campaign = JSON.stringify({ node_id: 'a', lease_ttl_ms: 5_000 })

/** Checks the shape that every error response has. */
export function expectRefused(answer: Answer | undefined, ...statuses: readonly number[]): void {
  expect(statuses, answer?.text).toContain(answer?.status)
  expect(answer?.body).toMatchObject({ ok: false, message: expect.stringMatching(/./) as string })
  expect(Object.keys(errorStatus)).toContain(answer?.body['error'])
  expect(answer?.text).not.toMatch(/node_modules|\.ts:|\.js:|\bat \w+ \(|FST_ERR|Error:/)
}

interface Renewing {
  slowestMs(): Promise<number>
  stop(): Promise<void>
}

/** Keeps renewing a lease. `slowestMs` returns the duration of the slowest renewal since the last call. */
export async function renewing(url: string, group: string): Promise<Renewing> {
  const ask = async (action: string, body: object) => {
    const response = await fetch(`${url}/v1/groups/${group}/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    return (await response.json()) as Record<string, unknown>
  }
  expect(await ask('campaign', { node_id: 'renewer', lease_ttl_ms: 5_000 })).toMatchObject({ is_leader: true })
  const end = new AbortController()
  let slowestMs = 0
  let current = renew()
  async function renew(): Promise<void> {
    const askedMs = performance.now()
    await ask('renew', { node_id: 'renewer', term: 1, extend_by_ms: 5_000 })
    slowestMs = Math.max(slowestMs, performance.now() - askedMs)
  }
  const run = async () => {
    while (!end.signal.aborted) {
      await current
      await new Promise((resolve) => setTimeout(resolve, 5))
      if (!end.signal.aborted) current = renew()
    }
  }
  const running = run()
  return {
    async slowestMs() {
      await current
      const tookMs = slowestMs
      slowestMs = 0
      return tookMs
    },
    stop() {
      end.abort()
      return running
    },
  }
}
