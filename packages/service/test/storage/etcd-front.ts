import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Fault } from './conformance.ts'

/** A proxy in front of a member of etcd. Writes through it can be lost, torn, late, or unanswered. */
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

export async function startEtcdFront(target: { readonly url: string; readonly port: number }): Promise<EtcdFront> {
  const late: Question[] = []
  const server = createServer((question, reply) => {
    void (async () => {
      const asked = { path: question.url ?? '', body: await bodyOf(question) }
      const fault = asked.body.includes('request_put') ? front.fault : undefined
      if (fault === 'late') late.push(asked)
      if (fault === 'torn') await sendHalf(target.port, asked)
      if (fault === undefined || fault === 'unheard') {
        const { status, body } = await send(target.url, asked)
        if (fault === undefined) return void reply.writeHead(status, { 'content-type': 'application/json' }).end(body)
      }
      question.socket.destroy()
    })()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
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

async function send(target: string, { path, body }: Question): Promise<{ status: number; body: Buffer }> {
  const asking = request(new URL(path, target), { method: 'POST', agent: false })
  asking.end(body)
  const [answer] = (await once(asking, 'response')) as [IncomingMessage]
  return { status: answer.statusCode ?? 502, body: await bodyOf(answer) }
}

async function sendHalf(port: number, { path, body }: Question): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`POST ${path} HTTP/1.1\r\nhost: etcd\r\ncontent-length: ${body.length}\r\n\r\n`)
  socket.end(body.subarray(0, body.length / 2))
  socket.resume()
  await once(socket, 'close')
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of message) parts.push(part as Buffer)
  return Buffer.concat(parts)
}
