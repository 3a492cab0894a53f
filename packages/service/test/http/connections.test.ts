import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { onResponseClosed } from '../../src/http/connections.ts'

/** A response in progress and the client that waits for it. */
async function conversation(): Promise<{ raw: ServerResponse; reader: Socket }> {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => void reader.destroy())
  reader.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  const [, raw] = (await once(server, 'request')) as [unknown, ServerResponse]
  return { raw, reader }
}

test('onResponseClosed calls back once for a response that is queued behind another one when the connection closes', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const responses: ServerResponse[] = []
  const both = new Promise<void>((resolve) => {
    server.on('request', (_request, response: ServerResponse) => {
      if (responses.push(response) === 2) resolve()
    })
  })
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1')
  reader.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(2))
  await both
  const queued = responses[1] ?? expect.unreachable('the second request did not arrive')
  let calls = 0
  onResponseClosed({ raw: queued } as FastifyReply, () => (calls += 1))
  const closed = once(queued.req.socket, 'close')
  reader.destroy()
  await closed
  expect(calls).toBe(1)
  onResponseClosed({ raw: queued } as FastifyReply, () => (calls += 1))
  expect(calls).toBe(2)
})

test('onResponseClosed calls back for a client that disconnected before the call', async () => {
  const { raw, reader } = await conversation()
  reader.destroy()
  await once(raw, 'close')
  let told = 0
  onResponseClosed({ raw } as FastifyReply, () => (told += 1))
  expect(told).toBe(1)
})

test('onResponseClosed calls back once for a client that disconnects later', async () => {
  const { raw, reader } = await conversation()
  let told = 0
  onResponseClosed({ raw } as FastifyReply, () => (told += 1))
  expect(told).toBe(0)
  reader.destroy()
  await once(raw, 'close')
  expect(told).toBe(1)
})
