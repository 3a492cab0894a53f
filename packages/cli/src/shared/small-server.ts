import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { formatAddress, listenFailure, type Address } from './arguments/addresses.ts'
import { isLoopback } from '@tenure/internal/loopback'
import { Hosts } from './hosts.ts'

const limits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 30_000,
  maxHeaderSize: 8_192,
  // Half a minute by default, for which a caller that sends nothing would be kept.
  connectionsCheckingInterval: 1_000,
}
const maxConnections = 1_000
/** How long an answer may stay unread. */
const unreadMs = 10_000

export interface RunningServer {
  readonly url: string
  readonly isLoopback: boolean
  close(): Promise<void>
}

/** What a small server answers: an object as JSON, or text of another kind. */
export type Reply =
  | { readonly status: number; readonly body: object }
  | { readonly status: number; readonly contentType: string; readonly text: string }

/** Each path, and what it answers at that moment. */
export type Replies = Readonly<Record<string, () => Reply>>

/** The one shape of errors. */
export function failure(status: number, error: string, message: string): Reply {
  return { status, body: { ok: false, error, message } }
}

/** Where a small server listens, and by which names it may be called. */
export interface SmallServerOptions {
  /** As messages name it, such as `sidecar`. */
  readonly what: string
  readonly listen: Address
  /** What chose the address. */
  readonly flag?: '--listen' | '--metrics'
  readonly allowedHost: readonly string[]
  readonly replies: Replies
}

/** Answers a few questions over HTTP, each without a body and without waiting. */
export async function listen({
  what,
  listen: address,
  flag,
  allowedHost,
  replies,
}: SmallServerOptions): Promise<RunningServer> {
  const hosts = new Hosts(address.host, allowedHost)
  const server = createServer(limits, (request, response) => {
    send(request, response, hosts.allows(request) ? replyTo(request, replies) : stranger(what))
  })
  server.maxConnections = maxConnections
  server.timeout = unreadMs
  server.listen(address.port, address.host)
  await once(server, 'listening').catch((error: unknown) => {
    throw listenFailure(error, address, flag) ?? error
  })
  const { address: host, port } = server.address() as AddressInfo
  return {
    url: `http://${formatAddress({ host, port })}`,
    isLoopback: isLoopback(host),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function stranger(what: string): Reply {
  const text = `This ${what} does not answer to this host name. Call it by its address, or allow the name with`
  return failure(403, 'UNAUTHORIZED', `${text} --allowed-host.`)
}

function replyTo({ method = '', url = '' }: IncomingMessage, replies: Replies): Reply {
  if (method !== 'GET' && method !== 'HEAD') return failure(405, 'INVALID_REQUEST', 'Only GET and HEAD are answered.')
  const [path = ''] = url.split('?')
  const reply = Object.hasOwn(replies, path) ? replies[path] : undefined
  if (reply) return reply()
  const paths = Object.keys(replies)
  const [only] = paths.length === 1 ? paths : []
  if (only !== undefined) return failure(404, 'NOT_FOUND', `There is ${only} alone.`)
  return failure(404, 'NOT_FOUND', `There are ${paths.slice(0, -1).join(', ')} and ${paths.at(-1)}.`)
}

function send({ method }: IncomingMessage, response: ServerResponse, reply: Reply): void {
  const isText = 'text' in reply
  const text = isText ? reply.text : `${JSON.stringify(reply.body)}\n`
  response.writeHead(reply.status, {
    'content-type': isText ? reply.contentType : 'application/json',
    'content-length': Buffer.byteLength(text),
    // An answer is true for a moment only, so nothing may be cached.
    'cache-control': 'no-store',
  })
  response.end(method === 'HEAD' ? undefined : text)
}
