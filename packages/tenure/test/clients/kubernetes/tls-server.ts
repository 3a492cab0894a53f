import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'
import { KubernetesClient } from '../../../src/clients/kubernetes/client.ts'
import type { Connection } from '../../../src/clients/kubernetes/connection.ts'
import { makeCertificate, type Certificate } from '../../kubernetes/certificate.ts'

/** A received request, and the socket for its answer. */
export interface Exchange {
  readonly socket: TLSSocket
  /** The request line, such as `GET /a`. */
  readonly line: string
  readonly text: string
  /** Which request of its connection this is, from 1. */
  readonly turn: number
  /** Ends the connection with a TCP reset. */
  reset(): void
}

/** A TLS server that reads HTTP and can send answers that no API server sends. It stops with the test. */
export interface TlsServer {
  readonly port: number
  readonly url: string
  readonly certificate: Certificate
  /** Its URL and credentials, for clients that trust it. */
  readonly connection: Connection
  readonly exchanges: readonly Exchange[]
  /** How many connections it has accepted. */
  readonly opened: number
  /** The connections that are still open. */
  readonly sockets: ReadonlySet<TLSSocket>
}

/** The token of a test client. No error may show it. */
export const secret = 'the-secret-token'

const ownCertificate = makeCertificate()

/** Starts a server that passes each request to `answer`. */
export async function serve(
  answer: (exchange: Exchange) => void,
  { certificate = ownCertificate, host = '127.0.0.1', reads = true } = {},
): Promise<TlsServer> {
  const sockets = new Set<TLSSocket>()
  const exchanges: Exchange[] = []
  let opened = 0
  const secureContext = createSecureContext(certificate)
  const server = createServer({ noDelay: true }, (tcp) => {
    opened += 1
    const socket = new TLSSocket(tcp, { isServer: true, secureContext })
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    if (!reads) return
    readRequests(socket, (request) => {
      const exchange = { socket, ...request, reset: () => void tcp.resetAndDestroy() }
      exchanges.push(exchange)
      answer(exchange)
    })
  }).listen(0, host)
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
  return {
    port,
    url,
    certificate,
    connection: connectionTo(url, certificate),
    exchanges,
    get opened() {
      return opened
    },
    sockets,
  }
}

export function connectionTo(server: string, { cert }: Certificate = ownCertificate): Connection {
  return { server, credentials: () => ({ authorization: `Bearer ${secret}`, tls: { ca: cert } }) }
}

/** A client whose connections are closed when its test ends. */
export function clientFor(...args: ConstructorParameters<typeof KubernetesClient>): KubernetesClient {
  const client = new KubernetesClient(...args)
  onTestFinished(() => client.close())
  return client
}

function readRequests(socket: TLSSocket, onRequest: (request: Pick<Exchange, 'text' | 'turn' | 'line'>) => void): void {
  let received = ''
  let turn = 0
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    received += chunk
    const headEnd = received.indexOf('\r\n\r\n') + 4
    const bodyLength = Number(/^content-length: (\d+)/im.exec(received.slice(0, headEnd))?.[1] ?? 0)
    if (headEnd < 4 || received.length < headEnd + bodyLength) return
    const text = received
    received = ''
    turn += 1
    onRequest({ text, turn, line: text.slice(0, text.indexOf(' HTTP/')) })
  })
}

/** A complete, valid answer. */
export function answerOf(body: unknown, { status = '200 OK', type = 'application/json' } = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

/** The head of a chunked answer. */
export const chunkedHead = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'

/** One chunk of such an answer. */
export function chunkOf(piece: string | Buffer): Buffer {
  const bytes = Buffer.from(piece)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}
