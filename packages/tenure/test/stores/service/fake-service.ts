import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import type { AcquireClaim, HeldClaim } from '../../../src/engine/lease-store.ts'
import { serviceStore, type ServiceStoreOptions } from '../../../src/stores/service/index.ts'

/** A received request. */
export interface ReceivedRequest {
  readonly line: string
  readonly headers: IncomingMessage['headers']
  readonly body: Record<string, unknown>
}

export type Answer = (response: ServerResponse, asked: ReceivedRequest) => void

/** An HTTP server that can send answers that no election service sends. It stops with the test. */
export interface FakeService {
  readonly url: string
  readonly asked: readonly ReceivedRequest[]
  /** How many connections it has accepted. */
  readonly opened: number
  /** The answer to all requests from now on. */
  answer: Answer
  /** Closes its connections, as a restart does. */
  drop(): void
}

export async function fakeService(answer: Answer): Promise<FakeService> {
  const asked: ReceivedRequest[] = []
  let opened = 0
  const server = createServer((request, response) => {
    void text(request).then((content) => {
      const body = content === '' ? {} : (JSON.parse(content) as Record<string, unknown>)
      const one = { line: `${request.method} ${request.url}`, headers: request.headers, body }
      asked.push(one)
      fake.answer(response, one)
    })
  })
  server.on('connection', () => void opened++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const fake: FakeService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    get opened() {
      return opened
    },
    answer,
    drop: () => server.closeAllConnections(),
  }
  return fake
}

/** A store that is closed when its test ends. */
export function storeOf(options: ServiceStoreOptions) {
  const store = serviceStore(options)
  onTestFinished(() => store.close?.())
  return store
}

export const claim: AcquireClaim = {
  election: 'report',
  holder: 'ada',
  attempt: 'a.1',
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: {},
}

export const held: HeldClaim = {
  election: 'report',
  holder: 'ada',
  attempt: 'a.1',
  term: 7,
  version: 'v7',
  leaseDurationMs: 15_000,
}

/** A valid leader. */
export const leader = {
  node_id: 'ada',
  term: 7,
  lease_expires_at_ms: 1_800_000_000_000,
  lease_remaining_ms: 14_000,
  lease_ttl_ms: 15_000,
  acquired_at_ms: 1_799_999_980_000,
  renewed_at_ms: 1_799_999_985_000,
  metadata: {},
  checkpoint: '',
  attempt: 'a.1',
  version: 'v7',
}

export const cluster = { 'tenure-cluster-id': 'cluster-one' }

/** An answer that grants every request. */
export function grantAs(headers: Record<string, string>) {
  return (response: ServerResponse, { line }: Pick<ReceivedRequest, 'line'>): void => {
    const campaign = line.endsWith('/campaign')
    const body = campaign ? { is_leader: true, highest_term: 7 } : { ok: true, highest_term: 7 }
    json(200, { ...body, leader }, headers)(response)
  }
}

export const grant = grantAs(cluster)

/** An answer with a JSON body. */
export function json(status: number, body: unknown, headers: Record<string, string> = cluster) {
  return (response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}
