import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { onceGone } from '../../src/http/connections.ts'

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

test('onceGone reports a client that disconnected before the call', async () => {
  const { raw, reader } = await conversation()
  reader.destroy()
  await once(raw, 'close')
  let told = 0
  onceGone({ raw } as FastifyReply, () => (told += 1))
  expect(told).toBe(1)
})

test('onceGone reports a client that disconnects later, once', async () => {
  const { raw, reader } = await conversation()
  let told = 0
  onceGone({ raw } as FastifyReply, () => (told += 1))
  expect(told).toBe(0)
  reader.destroy()
  await once(raw, 'close')
  expect(told).toBe(1)
})
