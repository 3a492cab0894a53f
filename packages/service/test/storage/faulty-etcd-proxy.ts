import { once } from 'node:events'
import { connect, createServer, type ClientHttp2Stream, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { ProtobufReader } from '../../src/storage/etcd-grpc/protobuf.ts'
import type { Fault } from './conformance.ts'

/** A proxy in front of a member of etcd, for its gRPC API. Writes through it can be lost, torn, late, or unanswered. */
export interface EtcdFront {
  readonly url: string
  fault: Fault | undefined
  /** Delivers late writes, and resolves when they have taken effect. */
  deliver(): Promise<void>
}

interface Question {
  readonly path: string
  readonly body: Buffer
}

interface Reply {
  readonly code: string
  readonly body: Buffer
}

export async function startEtcdFront(target: { readonly url: string }): Promise<EtcdFront> {
  const late: Question[] = []
  const sessions = new Set<Http2Session>()
  const server = createServer()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => {})
    session.once('close', () => sessions.delete(session))
  })
  server.on('stream', (stream, { ':path': path = '' }) => {
    stream.on('error', () => {})
    void (async () => {
      const asked = { path, body: await bodyOf(stream) }
      const fault = isWrite(asked) ? front.fault : undefined
      if (fault === 'late') late.push(asked)
      if (fault === 'torn') await sendHalf(target.url, asked)
      if (fault === undefined || fault === 'unheard') {
        const reply = await send(target.url, asked)
        if (fault === undefined) return answer(stream, reply)
      }
      stream.session?.destroy()
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const session of sessions) session.destroy()
  })
  const front: EtcdFront = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fault: undefined,
    async deliver() {
      for (const asked of late) await send(target.url, asked)
    },
  }
  return front
}

/** Returns whether a transaction puts a key. Its message follows the gRPC prefix, which is 5 bytes long. */
function isWrite({ path, body }: Question): boolean {
  const reader = new ProtobufReader(body, 5)
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (path.endsWith('/Txn') && field !== 1 && reader.message().next() === 2) return true
  }
  return false
}

function answer(stream: ServerHttp2Stream, { code, body }: Reply): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': code }))
  stream.end(body)
}

async function send(target: string, { path, body }: Question): Promise<Reply> {
  const { session, stream } = ask(target, path)
  let code = ''
  stream.on('response', (headers) => (code = String(headers['grpc-status'] ?? '')))
  stream.on('trailers', (headers) => (code = String(headers['grpc-status'])))
  stream.end(body)
  const reply = await bodyOf(stream)
  session.close()
  return { code, body: reply }
}

/** Sends the first half of a request, and then cuts the connection. */
async function sendHalf(target: string, { path, body }: Question): Promise<void> {
  const { session, stream } = ask(target, path)
  await new Promise((resolve) => stream.write(body.subarray(0, body.length / 2), resolve))
  // The answer to a ping shows that etcd has received everything before it.
  await new Promise((resolve) => session.ping(resolve))
  session.destroy()
}

function ask(target: string, path: string) {
  const session = connect(target)
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.on('error', () => {})
  return { session, stream }
}

async function bodyOf(stream: ServerHttp2Stream | ClientHttp2Stream): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of stream) parts.push(part as Buffer)
  return Buffer.concat(parts)
}
