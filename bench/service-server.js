// A server in its own process, with a channel to its parent: the election service on a data directory, a replica on a
// store, or a bare fastify route that validates the same body as a renewal.
import fastify from 'fastify'
import { startService } from '@tenure/service'

const [, , kind = '', data = '', advertise = ''] = process.argv

const url = kind === 'bare' ? await startBare() : await startElections()
process.on('message', () => {
  globalThis.gc?.()
  const { user, system } = process.cpuUsage()
  process.send?.({ heapUsed: process.memoryUsage().heapUsed, cpuUs: user + system })
})
process.send?.({ url })

async function startElections() {
  const place = kind === 'replica' ? { store: data, advertise } : { data }
  const service = await startService({ ...place, port: 0, policy: { minTtlMs: 1_000, maxTtlMs: 3_600_000 } })
  process.once('SIGTERM', () => void service.close().then(() => process.disconnect()))
  return service.url
}

async function startBare() {
  const app = fastify()
  const text = { type: 'string', minLength: 1, maxLength: 256 }
  const held = { node_id: text, term: { type: 'integer', minimum: 0 }, attempt: text, version: text }
  const body = {
    type: 'object',
    additionalProperties: false,
    required: ['node_id', 'term', 'extend_by_ms'],
    properties: {
      ...held,
      extend_by_ms: { type: 'integer', minimum: 1 },
      checkpoint: { type: 'string', maxLength: 4096 },
    },
  }
  app.post('/v1/groups/:group_id/renew', { schema: { body } }, async () => ({ ok: true }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  process.once('SIGTERM', () => void app.close().then(() => process.disconnect()))
  const address = app.server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}
