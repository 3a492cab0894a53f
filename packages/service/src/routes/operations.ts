/** What an operator asks: is it alive, can it work, how is it doing. */
import { mayReadAll } from '../access.ts'
import type { App, Service } from '../service.ts'
import * as schema from '../schemas.ts'

export function operationRoutes(app: App, service: Service): void {
  app.get(
    '/healthz',
    { schema: { operationId: 'healthz', summary: 'The process answers.', response: { 200: schema.Ok } } },
    async () => ({ ok: true as const }),
  )
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        summary: 'Grants can be made durable.',
        response: { 200: schema.Ok, ...schema.failures(503) },
      },
    },
    async () => {
      await service.state.check()
      return { ok: true as const }
    },
  )
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    mayReadAll(request.identity)
    void reply.type('text/plain; version=0.0.4; charset=utf-8')
    return service.metrics.text()
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}
