import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Elector } from 'tenure'
import { formatAddress, type Address } from '../addresses.ts'
import type { Promised } from './promised.ts'

const limits = { headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 30_000, maxHeaderSize: 8_192 }
const maxConnections = 1_000

export interface RunningServer {
  readonly url: string
  readonly isLoopback: boolean
  close(): Promise<void>
}

/** Answers who leads. */
export async function listen({ host, port }: Address, elector: Elector, promised: Promised): Promise<RunningServer> {
  const server = createServer(limits, (request, response) => answer(request, response, elector, promised))
  server.maxConnections = maxConnections
  server.listen(port, host)
  await once(server, 'listening')
  const { address, port: real } = server.address() as AddressInfo
  return {
    url: `http://${formatAddress({ host: address, port: real })}`,
    isLoopback: address === '::1' || address.startsWith('127.'),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function answer(request: IncomingMessage, response: ServerResponse, elector: Elector, promised: Promised): void {
  const { method = '', url = '' } = request
  const [path] = url.split('?')
  const send = (status: number, body: object) => {
    const text = JSON.stringify(body)
    response.writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text) + 1,
      // What was true a moment ago must not be believed later.
      'cache-control': 'no-store',
    })
    response.end(method === 'HEAD' ? undefined : `${text}\n`)
  }
  const fail = (status: number, error: string, message: string) => send(status, { ok: false, error, message })
  if (method !== 'GET' && method !== 'HEAD') return fail(405, 'INVALID_REQUEST', 'Only GET and HEAD are answered.')
  switch (path) {
    case '/leader':
      return send(200, standing(elector, promised))
    case '/is-leader': {
      const is_leader = promised.mayTell && elector.isLeader()
      return send(is_leader ? 200 : 503, { is_leader })
    }
    case '/healthz':
      return promised.mayTell
        ? send(200, { ok: true, summary: elector.explain().summary })
        : fail(503, 'BACKEND_UNAVAILABLE', 'It stops.')
    default:
      return fail(404, 'NOT_FOUND', 'There are /leader, /is-leader and /healthz.')
  }
}

/** By the names of the service's HTTP API. */
function standing(elector: Elector, promised: Promised): object {
  const { isLeader, leader, leaseEndsInMs = 0 } = elector.explain()
  const is_leader = promised.mayTell && isLeader
  // Rounded down: it must not promise more than there is.
  const lease_remaining_ms = Math.floor(leaseEndsInMs)
  if (is_leader) promised.told(lease_remaining_ms)
  // Its own name means that it leads, to whoever compares no more than names.
  const shown = leader && (is_leader || leader.holder !== elector.identity)
  return {
    election: elector.election,
    node_id: elector.identity,
    is_leader,
    leader: shown ? { node_id: leader.holder, term: leader.term, lease_remaining_ms, metadata: leader.metadata } : null,
  }
}
