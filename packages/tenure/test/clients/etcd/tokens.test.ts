import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { etcdStore } from '../../../src/stores/etcd/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

const call = { signal: new AbortController().signal, timeoutMs: 3_000 }
const nothing = {
  header: { cluster_id: '1', revision: '1' },
  succeeded: true,
  responses: [{ response_range: {} }, { response_range: {} }],
}

/** A real HTTP server with answers that etcd itself would not send. */
async function open(authenticate: (reply: ServerResponse) => void, isAccepted = (_token = '') => true) {
  const server = createServer((question, reply) => {
    question.resume()
    if (question.url === '/v3/auth/authenticate') authenticate(reply)
    else if (!isAccepted(question.headers.authorization)) reply.writeHead(400).end('Bad Request')
    else reply.end(JSON.stringify(nothing))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const clock = fakeClock()
  const endpoints = `http://127.0.0.1:${port}`
  return { clock, store: etcdStore({ endpoints, user: 'me', password: 'p', clock }) }
}

test('a token that is not valid in a header is rejected and not kept', async () => {
  const tokens = ['a\nb', 'sound']
  const { store } = await open((reply) => reply.end(JSON.stringify({ header: {}, token: tokens.shift() })))
  await expect(store.read('x', call)).rejects.toMatchObject({ message: expect.stringContaining('no usable token') })
  expect(await store.read('x', call)).toBeUndefined()
})

test('a token is replaced when a proxy rejects it with an error in an unknown format', async () => {
  const tokens = ['old', 'new']
  const { store } = await open(
    (reply) => reply.end(JSON.stringify({ header: {}, token: tokens.shift() })),
    (token) => token === 'new',
  )
  expect(await store.read('x', call)).toBeUndefined()
})

test('close cancels a request for a token', async () => {
  let asked = (_reply: ServerResponse): void => undefined
  const reached = new Promise<ServerResponse>((resolve) => (asked = resolve))
  const { clock, store } = await open((reply) => asked(reply))
  const leaving = new AbortController()
  const reading = store.read('x', { ...call, signal: leaving.signal })
  const reply = await reached
  leaving.abort(new Error('enough'))
  await expect(reading).rejects.toThrow('enough')
  const left = once(reply, 'close')
  await store.close?.()
  await left
  expect(clock.timers).toBe(0)
})
