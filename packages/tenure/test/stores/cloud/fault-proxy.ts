import { once } from 'node:events'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A proxy in front of a server that can inject faults. */
export interface FaultProxy {
  readonly url: string
  /** The methods and paths of all requests, in order. */
  readonly asked: string[]
  /** Headers that are not forwarded to the server. */
  readonly hidden: Set<string>
  /** How many answers of the next requests with this method are dropped after the server applied them. */
  lose: { readonly method: string; count: number }
  /** If set, requests are answered with this status and not forwarded. */
  refuse: number | undefined
  /** Requests whose method, path, `x-amz-target`, and body match are answered with this status and not forwarded. */
  refuseSome: { readonly pattern: RegExp; readonly status: number } | undefined
  /** Requests that match in the same way are held until this many have arrived. Then all are forwarded. */
  hold: { readonly pattern: RegExp; readonly count: number } | undefined
  close(): void
}

export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const held: (() => void)[] = []
  const serve = async (question: IncomingMessage, reply: ServerResponse) => {
    const { method = '', url = '' } = question
    front.asked.push(`${method} ${url}`)
    if (front.refuse !== undefined) return void reply.writeHead(front.refuse).end()
    const body = await buffer(question)
    const operation = String(question.headers['x-amz-target'] ?? '')
    const text = `${method} ${url} ${operation}\n${body.toString()}`
    const { pattern, status = 500 } = front.refuseSome ?? {}
    if (pattern?.test(text)) return void reply.writeHead(status).end()
    if (front.hold?.pattern.test(text)) {
      const { count } = front.hold
      const arrived = new Promise<void>((resolve) => void held.push(resolve))
      if (held.length === count) {
        front.hold = undefined
        for (const forward of held.splice(0)) forward()
      }
      await arrived
    }
    const headers = Object.fromEntries(Object.entries(question.headers).filter(([name]) => !front.hidden.has(name)))
    const forwarded = request(new URL(url, target), { method, headers, agent: false })
    forwarded.end(body)
    forwarded.on('error', () => reply.destroy())
    forwarded.once('response', (answer: IncomingMessage) => {
      if (front.lose.method === method && front.lose.count > 0) {
        front.lose.count--
        answer.resume()
        return void answer.once('end', () => reply.destroy())
      }
      reply.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(reply)
    })
  }
  const server = createServer((question, reply) => {
    serve(question, reply).catch(() => reply.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const front: FaultProxy = {
    url: `http://127.0.0.1:${port}`,
    asked: [],
    hidden: new Set(),
    lose: { method: 'PUT', count: 0 },
    refuse: undefined,
    refuseSome: undefined,
    hold: undefined,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
  return front
}
