import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Stands in front of a server, and may be worse than that. */
export interface Front {
  readonly url: string
  /** The methods and paths of all requests, in the order in which they came. */
  readonly asked: string[]
  /** Headers that the server does not get to see. */
  readonly hidden: Set<string>
  /** So many answers of the next requests with this method are lost after they were carried out. */
  lose: { readonly method: string; count: number }
  /** The next requests are answered with this status, and not carried out. */
  refuse: number | undefined
  close(): void
}

export async function startFront(target: string): Promise<Front> {
  const server = createServer((question, reply) => {
    const { method = '', url = '' } = question
    front.asked.push(`${method} ${url}`)
    if (front.refuse !== undefined) return void reply.writeHead(front.refuse).end()
    const headers = Object.fromEntries(Object.entries(question.headers).filter(([name]) => !front.hidden.has(name)))
    const forwarded = request(new URL(url, target), { method, headers, agent: false })
    question.pipe(forwarded)
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
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const front: Front = {
    url: `http://127.0.0.1:${port}`,
    asked: [],
    hidden: new Set(),
    lose: { method: 'PUT', count: 0 },
    refuse: undefined,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
  return front
}
