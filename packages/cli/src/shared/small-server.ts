import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { formatAddress, listenFailure, type ListenAddress, type SocketPath } from './arguments/addresses.ts'
import { isLoopback } from '@tenure/internal/loopback'
import { limitConnections, unknownIdleMs } from './connection-limit.ts'
import { AllowedHosts } from './allowed-hosts.ts'
import { listenOnPath } from './socket-path.ts'

const limits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  // The server announces this timeout, so clients do not reuse a connection that is about to be closed.
  keepAliveTimeout: unknownIdleMs - 1_000,
  maxHeaderSize: 8_192,
  // The default of 30 s would let a client that sends nothing hold its connection for that long.
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

/** An answer: an object as JSON, or text with a content type. */
export type ServerReply =
  | { readonly status: number; readonly body: object }
  | { readonly status: number; readonly contentType: string; readonly text: string }

/** For each path, a function that returns its current answer. */
export type Replies = Readonly<Record<string, () => ServerReply>>

/** Returns an error reply in the one format that all small servers use. */
export function failure(status: number, error: string, message: string): ServerReply {
  return { status, body: { ok: false, error, message } }
}

/** Where a small server listens, and which host names it accepts. */
export interface SmallServerOptions {
  /** The name of the server in messages, such as `sidecar`. */
  readonly what: string
  readonly listen: ListenAddress | SocketPath
  /** The option that chose the address. */
  readonly flag?: '--listen' | '--metrics'
  readonly allowedHost: readonly string[]
  readonly replies: Replies
}

/** Starts an HTTP server for a few routes. No request has a body, and every answer is available at once. */
export async function listen({
  what,
  listen: address,
  flag,
  allowedHost,
  replies,
}: SmallServerOptions): Promise<RunningServer> {
  const isPath = 'path' in address
  const hosts = new AllowedHosts(isPath ? 'localhost' : address.host, allowedHost)
  const server = createServer(limits, (request, response) => {
    send(request, response, hosts.allows(request) ? replyTo(request, replies) : hostNotAllowed(what))
  })
  limitConnections(server, maxConnections)
  server.timeout = unreadMs
  if (isPath) await listenOnPath(server, address)
  else await listenOn(server, address, flag)
  const bound = server.address() as AddressInfo
  return {
    url: isPath ? `unix:${address.path}` : `http://${formatAddress({ host: bound.address, port: bound.port })}`,
    isLoopback: isPath || isLoopback(bound.address),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

async function listenOn(server: Server, address: ListenAddress, flag: SmallServerOptions['flag']): Promise<void> {
  server.listen(address.port, address.host)
  await once(server, 'listening').catch((error: unknown) => {
    throw listenFailure(error, address, flag) ?? error
  })
}

function hostNotAllowed(what: string): ServerReply {
  const text = `This ${what} does not accept this host name. Use its address, or allow the name with`
  return failure(403, 'UNAUTHORIZED', `${text} --allowed-host.`)
}

function replyTo({ method = '', url = '' }: IncomingMessage, replies: Replies): ServerReply {
  if (method !== 'GET' && method !== 'HEAD') return failure(405, 'INVALID_REQUEST', 'Only GET and HEAD are allowed.')
  const [path = ''] = url.split('?')
  const reply = Object.hasOwn(replies, path) ? replies[path] : undefined
  if (reply) return reply()
  const paths = Object.keys(replies)
  const [only] = paths.length === 1 ? paths : []
  if (only !== undefined) return failure(404, 'NOT_FOUND', `Unknown path. The only route is ${only}.`)
  return failure(404, 'NOT_FOUND', `Unknown path. The routes are ${paths.slice(0, -1).join(', ')} and ${paths.at(-1)}.`)
}

function send({ method }: IncomingMessage, response: ServerResponse, reply: ServerReply): void {
  const isText = 'text' in reply
  const text = isText ? reply.text : `${JSON.stringify(reply.body)}\n`
  response.writeHead(reply.status, {
    'content-type': isText ? reply.contentType : 'application/json',
    'content-length': Buffer.byteLength(text),
    // An answer is valid only at that moment, so it must not be cached.
    'cache-control': 'no-store',
  })
  response.end(method === 'HEAD' ? undefined : text)
}
