import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorStatus } from '../../src/common/errors.ts'
import { startService, type RunningService } from '../../src/index.ts'

interface Shape {
  readonly description?: string
  readonly $ref?: string
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
  readonly enum?: readonly unknown[]
}
interface Content {
  readonly [type: string]: { readonly schema: Shape; readonly example?: unknown }
}
interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly tags: readonly string[]
  readonly parameters?: readonly (Shape & { readonly name: string })[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content: Content }>>
}
interface Document {
  readonly openapi: string
  readonly tags: readonly { readonly name: string }[]
  readonly security: readonly object[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Shape>>
    readonly securitySchemes: Readonly<Record<string, object>>
  }
}

const data = mkdtempSync(join(tmpdir(), 'tenure-openapi-'))
let service: RunningService
let document: Document
let operations: Operation[]
beforeAll(async () => {
  service = await startService({ data, port: 0 })
  document = (await (await fetch(`${service.url}/openapi.json`)).json()) as Document
  operations = Object.values(document.paths).flatMap((path) => Object.values(path))
})
afterAll(async () => {
  await service.close()
  rmSync(data, { recursive: true })
})

test('the OpenAPI document has every route', () => {
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(routes.sort()).toEqual([
    'DELETE /v1/groups/{group_id}',
    'GET /healthz',
    'GET /metrics',
    'GET /openapi.json',
    'GET /readyz',
    'GET /v1/changes',
    'GET /v1/groups',
    'GET /v1/groups/{group_id}',
    'GET /v1/groups/{group_id}/leader',
    'GET /v1/groups/{group_id}/members',
    'GET /v1/groups/{group_id}/watch',
    'GET /v1/identity',
    'GET /v1/replicas',
    'GET /v1/watch',
    'POST /v1/groups',
    'POST /v1/groups/{group_id}/campaign',
    'POST /v1/groups/{group_id}/heartbeat',
    'POST /v1/groups/{group_id}/renew',
    'POST /v1/groups/{group_id}/resign',
    'POST /v1/renew',
    'POST /v1/tokens/revoke',
    'PUT /v1/groups/{group_id}',
  ])
})

test('every route, parameter, and field in the OpenAPI document has a description', () => {
  const silent: string[] = []
  const look = (where: string, { description, $ref, properties = {}, items, anyOf = [] }: Shape, isField: boolean) => {
    if (isField && description === undefined && $ref === undefined) silent.push(where)
    for (const [name, shape] of Object.entries(properties)) look(`${where}.${name}`, shape, true)
    if (items) look(`${where}[]`, items, false)
    for (const shape of anyOf) look(where, shape, false)
  }
  for (const [name, shape] of Object.entries(document.components.schemas)) look(name, shape, false)
  for (const { operationId, summary, description, tags, parameters = [], requestBody, responses } of operations) {
    expect(summary, operationId).toBeTruthy()
    expect(description, operationId).toBeTruthy()
    expect(document.tags.map(({ name }) => name)).toEqual(expect.arrayContaining([...tags]))
    for (const parameter of parameters) look(`${operationId}?${parameter.name}`, parameter, true)
    for (const { schema } of Object.values(requestBody?.content ?? {})) look(operationId, schema, false)
    for (const [status, answer] of Object.entries(responses)) {
      if (answer.description === '' || answer.description === 'Default Response')
        silent.push(`${operationId} ${status}`)
    }
  }
  expect(silent).toEqual([])
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
})

test('every error response has the same shape, and its schema names all codes', () => {
  for (const { operationId, responses } of operations) {
    const failures = Object.entries(responses).filter(([status]) => Number(status) >= 400)
    expect(failures.length, operationId).toBeGreaterThan(3)
    for (const [, { content }] of failures) {
      expect(content).toEqual({ 'application/json': { schema: { $ref: '#/components/schemas/Failure' } } })
    }
  }
  expect(document.components.schemas['Failure']?.properties?.['error']?.enum).toEqual(Object.keys(errorStatus))
})

test('the OpenAPI document describes the response of a watch as an event stream or as JSON', () => {
  const watches = operations.filter(({ tags }) => tags.includes('watch'))
  expect(watches).toHaveLength(2)
  for (const { responses } of watches) {
    expect(Object.keys(responses['200']?.content ?? {})).toEqual(['application/json', 'text/event-stream'])
  }
})

test('the OpenAPI document describes both ways to authenticate and requires none without authentication', () => {
  expect(document.components.securitySchemes).toMatchObject({
    token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    certificate: { type: 'mutualTLS' },
  })
  expect(document.security).toEqual([])
})

test('every request body has an example that the service accepts', async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { operationId, requestBody }] of Object.entries(methods)) {
      if (!requestBody) continue
      const { example } = requestBody.content['application/json'] ?? {}
      expect(example, operationId).toBeDefined()
      const response = await fetch(service.url + path.replace('{group_id}', operationId), {
        method: method.toUpperCase(),
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(example),
      })
      // The groups have no leader, so a correct request may be refused, but it is never invalid.
      expect([200, 201, 404, 409], operationId).toContain(response.status)
    }
  }
})
