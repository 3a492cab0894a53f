import swagger from '@fastify/swagger'
import { openAccess } from '../auth/access.ts'
import { shared } from '../schemas/common.ts'
import { failures } from '../schemas/failures.ts'
import type { App, Service } from './service.ts'

/** This is part of OpenAPI 3.1, but the types only know 3.0. */
const mutualTls = {
  type: 'mutualTLS',
  description: 'A client certificate whose subject alternative name identifies the node.',
} as never

/** Serves `/openapi.json`, which describes the routes and how clients authenticate. */
export async function describeApi(app: App, { authenticator }: Service): Promise<void> {
  for (const schema of shared) app.addSchema(schema)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tenure election service',
        version: '1.0.0',
        description: 'Leader election over HTTP. Any program that can send JSON can take part.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'election', description: 'Campaign, renew, resign, and read the leader.' },
        { name: 'watch', description: 'Changes as they happen.' },
        { name: 'groups', description: 'Groups, their policies, and their members.' },
        { name: 'operation', description: 'Health, metrics, replicas, and tokens of the service.' },
      ],
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          certificate: mutualTls,
        },
      },
      // Without authentication every process on this machine may do everything.
      security: authenticator === openAccess ? [] : [{ token: [] }, { certificate: [] }],
    },
    // The failures are not in the routes' own schemas, because compiling them there would take a second at every start.
    transform: ({ schema, url, route }) => ({
      schema: {
        ...schema,
        response: { ...(schema.response as object), ...failures(...(route.config?.failures ?? [])) },
      },
      url,
    }),
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) =>
        typeof json['$id'] === 'string' ? json['$id'] : `schema-${index}`,
    },
  })
}
