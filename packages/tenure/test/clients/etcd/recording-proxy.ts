import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import { EventEmitter, once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** A proxy in front of an HTTP server that records its requests. */
export interface RecordingProxy {
  readonly url: string
  /** The requested paths, in order. */
  readonly asked: string[]
  /** If true, requests are forwarded but answers are not delivered. */
  isMute: boolean
  /** Resolves when the member begins to answer the next request for this path, even if the answer is not delivered. */
  answered(path: string): Promise<unknown>
  /** Closes all current connections. */
  cut(): void
}

export async function startRecordingProxy(target: string): Promise<RecordingProxy> {
  const answers = new EventEmitter()
  const server: Server = createServer((question, reply) => {
    front.asked.push(question.url ?? '')
    const { headers, method } = question
    const forwarded = request(new URL(question.url ?? '', target), { method, headers, agent: false })
    question.pipe(forwarded)
    reply.once('close', () => forwarded.destroy())
    forwarded.on('error', () => reply.destroy())
    forwarded.once('response', (answer: IncomingMessage) => {
      answer.on('error', () => reply.destroy())
      answers.emit(question.url ?? '')
      if (front.isMute) return void answer.resume()
      reply.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(reply)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const front: RecordingProxy = {
    url: `http://127.0.0.1:${port}`,
    asked: [],
    isMute: false,
    answered: (path) => once(answers, path),
    cut: () => server.closeAllConnections(),
  }
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return front
}
