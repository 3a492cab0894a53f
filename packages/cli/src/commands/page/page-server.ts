import type { PageEvent } from '@tenure/page/model/answers'
import { filesPath, pageFile, pageOrText, type Sent } from '@tenure/page/server/static-page'
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { formatAddress, listenFailure, type ListenAddress } from '../../shared/arguments/addresses.ts'
import { every } from '../../shared/clock.ts'
import { limitConnections } from '../../shared/connection-limit.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import { AllowedHosts } from '../../shared/allowed-hosts.ts'
import type { StoreAnswers } from './store-answers.ts'

const text =
  'This is "tenure page", which shows the elections of a store. Open the address that it printed in a browser.\n'
const heartbeatMs = 10_000
const mostNames = 100
/** A client with more unread data than this is disconnected. It then reconnects. */
const mostUnreadBytes = 2 ** 20
// One request names all elections of a page in its URL, and each name may be 256 bytes long.
const limits = { headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 30_000, maxHeaderSize: 2 ** 17 }
const maxConnections = 200

interface PageServerOptions {
  readonly listen: ListenAddress
  /**
   * The secret that callers must present. Other users on this machine can reach the port, but must not read everything
   * that the operator can read.
   */
  readonly token: string
  readonly answers: StoreAnswers
}

class RefusedRequest extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Serves the page, and the few routes of the HTTP API that it reads. */
export class PageServer {
  readonly url: string
  readonly #server: Server

  private constructor(server: Server) {
    const { address: host, port } = server.address() as AddressInfo
    this.url = `http://${formatAddress({ host, port })}`
    this.#server = server
  }

  static async listen({ listen: address, token, answers }: PageServerOptions): Promise<PageServer> {
    const hosts = new AllowedHosts(address.host, [])
    const expected = digest(`Bearer ${token}`)
    const server = createServer(limits, (request, response) => {
      const identify = () => room.identify(request.socket)
      answer(request, response, { hosts, expected, answers, identify }).catch((error: unknown) =>
        refuse(response, error),
      )
    })
    const room = limitConnections(server, maxConnections, { mostUnknown: maxConnections / 2 })
    server.listen(address.port, address.host)
    await once(server, 'listening').catch((error: unknown) => {
      throw listenFailure(error, address) ?? error
    })
    return new PageServer(server)
  }

  async close(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }
}

interface Guarded {
  readonly hosts: AllowedHosts
  readonly expected: Buffer
  readonly answers: StoreAnswers
  /** Records that the caller has presented the token. */
  identify(): void
}

async function answer(request: IncomingMessage, response: ServerResponse, guarded: Guarded): Promise<void> {
  const { method = '', url = '', headers } = request
  // A web page whose host name resolves to this machine (DNS rebinding) still sends its own host name.
  if (!guarded.hosts.allows(request))
    throw new RefusedRequest(
      403,
      'UNAUTHORIZED',
      'This host name is not allowed. Use the address that "tenure page" printed.',
    )
  if (method !== 'GET' && method !== 'HEAD')
    throw new RefusedRequest(405, 'INVALID_REQUEST', 'This page is read-only: only GET and HEAD are allowed.')
  const [path = '', query = ''] = url.split('?')
  const sent = path === '/' ? pageOrText(text, headers) : fileAt(path, headers)
  if (sent) return send(response, sent, method)
  if (!timingSafeEqual(digest(headers.authorization ?? ''), guarded.expected)) {
    throw new RefusedRequest(401, 'UNAUTHORIZED', 'Open the address that "tenure page" printed when it was started.')
  }
  guarded.identify()
  if (path === '/v1/watch') return watch(request, response, guarded.answers, namesIn(query))
  const body = await answerOf(path, query, response, guarded.answers)
  sendJson(response, 200, body)
}

function fileAt(path: string, headers: IncomingMessage['headers']): Sent | undefined {
  return path.startsWith(filesPath) ? pageFile(path.slice(filesPath.length), headers) : undefined
}

async function answerOf(path: string, query: string, response: ServerResponse, answers: StoreAnswers): Promise<object> {
  const given = new URLSearchParams(query)
  if (path === '/v1/identity') return answers.identity()
  if (path === '/v1/replicas') return answers.replicas()
  if (path === '/v1/changes') return { changes: answers.observations.changesOf(new Set(namesIn(query)), 999) }
  if (path === '/v1/groups') {
    const limit = Math.min(100, Math.max(1, Number(given.get('limit') ?? '50') || 50))
    return answers.groups({ after: given.get('after') ?? undefined, limit, search: given.get('search') ?? '' })
  }
  const [, name, rest] = /^\/v1\/groups\/([^/]+)(\/members)?$/.exec(path) ?? []
  if (name === undefined) throw new RefusedRequest(404, 'NOT_FOUND', 'This route does not exist.')
  if (rest !== undefined) return answers.members(decode(name))
  return { ok: true, group: await groupOf(decode(name), response, answers) }
}

/** Returns the state of one election as soon as it has been observed. Stops waiting when the client disconnects. */
async function groupOf(name: string, response: ServerResponse, { observations }: StoreAnswers): Promise<object> {
  const state = await new Promise<PageEvent>((resolve) => {
    response.once('close', observations.follow(name, resolve))
  })
  const { leader = null, previous_leader, highest_term = state.term ?? 0 } = state
  if (!leader && !previous_leader) throw new RefusedRequest(404, 'NOT_FOUND', 'This election does not exist.')
  return { group_id: name, leader, ...(previous_leader && { previous_leader }), highest_term }
}

function watch(
  request: IncomingMessage,
  response: ServerResponse,
  { observations }: StoreAnswers,
  names: string[],
): void {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  const write = (line: string) => {
    response.write(line)
    if (response.writableLength > mostUnreadBytes) response.destroy()
  }
  write(': here\n\n')
  const ends = names.map((name) => observations.follow(name, (event) => write(`data: ${JSON.stringify(event)}\n\n`)))
  const endTicks = every(heartbeatMs, () => write(': still here\n\n'))
  request.socket.once('close', () => {
    endTicks()
    for (const end of ends) end()
  })
}

/** Returns the names in a query. Each is percent-encoded on its own, because names may contain commas. */
function namesIn(query: string): string[] {
  const [, list = ''] = /(?:^|&)groups=([^&]*)/.exec(query) ?? []
  const names = [...new Set(list.split(',').filter(Boolean).map(decode))]
  if (names.length > 0 && names.length <= mostNames) return names
  throw new RefusedRequest(400, 'INVALID_REQUEST', `groups must contain 1 to ${mostNames} names.`)
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    throw new RefusedRequest(400, 'INVALID_REQUEST', 'A name is not valid percent-encoding.')
  }
}

function digest(value: string): Buffer {
  return createHash('sha256').update(value).digest()
}

function send(response: ServerResponse, { status, headers, body }: Sent, method: string): void {
  response.writeHead(status, { ...headers, ...(status === 200 && { 'content-length': body.length }) })
  response.end(method === 'HEAD' ? undefined : body)
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  response.writeHead(status, headers).end(JSON.stringify(body))
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy()
  const known = error instanceof RefusedRequest ? error : undefined
  const { message } = known ?? commandErrorOf(error)
  sendJson(response, known?.status ?? 503, { ok: false, error: known?.code ?? 'BACKEND_UNAVAILABLE', message })
}
