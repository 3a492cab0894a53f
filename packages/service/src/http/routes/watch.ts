import { checkMayRead } from '../../auth/access.ts'
import { ServiceError } from '../../common/errors.ts'
import { handleWatch } from '../watch/watch-handler.ts'
import { countUnread } from '../connections.ts'
import { GroupParams } from '../../schemas/common.ts'
import * as schema from '../../schemas/watch.ts'
import type { App, Service } from '../service.ts'
import { changeOf } from '../../schemas/views.ts'

function watchRoute(app: App, service: Service): void {
  app.get(
    '/v1/groups/:group_id/watch',
    {
      // A HEAD request would keep a stream open without ever sending a body.
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
        handleWatch(service, request, reply, [request.params.group_id], request.query),
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
      const groups = groupsOf(request.query)
      service.limits.groups(request, groups.length)
      return service.limits.watching(request, groups.length, () =>
        handleWatch(service, request, reply, groups, request.query),
      )
    },
  )
}

/**
 * The price, in requests, of searching all kept changes. It is constant, because the price must not reveal how busy
 * other callers' groups are.
 */
const changesPrice = 16

function changesRoute(app: App, { hub, limits }: Service): void {
  app.get(
    '/v1/changes',
    {
      onSend: countUnread(limits),
      schema: {
        operationId: 'listChanges',
        tags: ['groups'],
        summary: 'List the last changes of some groups',
        description:
          'The changes that this replica has in memory since its start, at most the newest 16384 of all groups. For display only. Use a watch to follow changes.',
        querystring: schema.ChangesQuery,
        response: { 200: schema.ChangesAnswer },
      },
    },
    async (request) => {
      const groups = groupsOf(request.query)
      limits.work(limits.subjectOf(request), Math.max(changesPrice, Math.ceil(groups.length / 10)), 1)
      for (const group of groups) checkMayRead(request.identity, group)
      const kept = hub.feed.newest(new Set(groups), Number(request.query.limit ?? '100'))
      return { changes: kept.map(({ change }) => changeOf(change)) }
    },
  )
}

function groupsOf({ groups }: { readonly groups: string }): string[] {
  const all = [...new Set(groups.split(','))]
  if (all.length <= schema.maxWatched) return all
  throw new ServiceError('INVALID_REQUEST', `groups must have at most ${schema.maxWatched} ids.`)
}

export const watchRoutes = [watchRoute, watchManyRoute, changesRoute]
