import { ServiceError } from '../../errors.ts'
import { watch } from '../../watch/watch.ts'
import { countUnread } from '../connections.ts'
import { GroupParams } from '../schemas/common.ts'
import * as schema from '../schemas/watch.ts'
import type { App, Service } from '../service.ts'

function watchRoute(app: App, service: Service): void {
  app.get(
    '/v1/groups/:group_id/watch',
    {
      // A stream without a body would be held for nothing.
      exposeHeadRoute: false,
      onSend: countUnread(service.limits),
      schema: {
        operationId: 'watch',
        tags: ['watch'],
        summary: 'Watch a group',
        description: schema.watchText,
        params: GroupParams,
        querystring: schema.WatchQuery,
        headers: schema.WatchHeaders,
        response: schema.watchResponses,
      },
      config: { failures: [404] },
    },
    (request, reply) =>
      service.limits.watching(request, 1, () =>
        watch(service, request, reply, [request.params.group_id], request.query),
      ),
  )
}

function watchManyRoute(app: App, service: Service): void {
  app.get(
    '/v1/watch',
    {
      exposeHeadRoute: false,
      onSend: countUnread(service.limits),
      schema: {
        operationId: 'watchMany',
        tags: ['watch'],
        summary: 'Watch many groups',
        description: schema.watchText,
        querystring: schema.WatchManyQuery,
        headers: schema.WatchHeaders,
        response: schema.watchResponses,
      },
    },
    (request, reply) => {
      const groups = [...new Set(request.query.groups.split(','))]
      if (groups.length > schema.mostWatched) {
        throw new ServiceError('INVALID_REQUEST', `groups must be at most ${schema.mostWatched}.`)
      }
      service.limits.groups(request, groups.length)
      return service.limits.watching(request, groups.length, () =>
        watch(service, request, reply, groups, request.query),
      )
    },
  )
}

export const watchRoutes = [watchRoute, watchManyRoute]
