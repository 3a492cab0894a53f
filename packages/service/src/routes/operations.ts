/** What an operator asks: is it alive, can it work, how is it doing. */
import { Type } from '@sinclair/typebox'
import { mayReadAll } from '../access.ts'
import * as schema from '../schemas.ts'
import type { App, Service } from '../service.ts'

const tags = ['operation']

export function operationRoutes(app: App, service: Service): void {
  let checking: Promise<void> | undefined
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'healthz',
        tags,
        summary: 'Is it alive',
        description: 'The process answers.',
        security: [],
        response: { 200: schema.Ok },
      },
    },
    async () => ({ ok: true as const }),
  )
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        tags,
        summary: 'Can it work',
        description: 'Grants can be made durable.',
        security: [],
        response: { 200: schema.Ok },
      },
    },
    async () => {
      // Everybody may ask, and each check is a write: those that come together share one.
      checking ??= service.state.check().finally(() => (checking = undefined))
      await checking
      return { ok: true as const }
    },
  )
  app.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        tags,
        summary: 'Figures for Prometheus',
        description: 'Its text format. Labels take a few fixed values only.',
        response: {
          200: {
            description: 'The figures.',
            content: { 'text/plain': { schema: Type.String() } },
          },
        },
      },
    },
    async (request, reply) => {
      mayReadAll(request.identity)
      void reply.type('text/plain; version=0.0.4; charset=utf-8')
      return service.metrics.text()
    },
  )
  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'openapi',
        tags,
        summary: 'This document',
        description: 'The OpenAPI document of this service.',
        response: {
          200: Type.Unsafe<object>({ type: 'object', additionalProperties: true, description: 'The document.' }),
        },
      },
    },
    async () => app.swagger(),
  )
}
