/** The web page, at `/`. It needs no authentication, but the data that it loads does. */
import { filesPath, pageFile, pageOrText, type Sent } from '@tenure/page/server/static-page'
import type { FastifyReply } from 'fastify'
import { ServiceError } from '../../common/errors.ts'
import type { App } from '../service.ts'

const text = `Tenure, the election service. In a browser this is a page that shows the elections.

  POST   /v1/groups/{id}/campaign    try to become leader: node_id, lease_ttl_ms
  POST   /v1/groups/{id}/renew       extend the lease: node_id, term, extend_by_ms
  POST   /v1/groups/{id}/resign      release the lease: node_id, term
  GET    /v1/groups/{id}/leader      the current leader
  GET    /v1/groups/{id}/watch       changes as they happen
  GET    /v1/groups/{id}/members     the nodes that take part
  GET    /v1/groups                  all groups, in pages; ?search=text
  GET    /v1/replicas                the replicas of this service, and its storage
  GET    /healthz  /readyz  /metrics
  GET    /openapi.json               all routes, with every field
`

const [atRoot, atFile] = ['/', `${filesPath}:file`] as const
export const pagePaths = [atRoot, atFile]
const schema = { hide: true }

export function pageRoute(app: App): void {
  app.get(atRoot, { schema }, (request, reply) => send(reply, pageOrText(text, request.headers)))
  app.get<{ Params: { file: string } }>(atFile, { schema }, (request, reply) => {
    const found = pageFile(request.params.file, request.headers)
    if (!found) throw new ServiceError('NOT_FOUND', 'This file does not exist. Reload the page.')
    return send(reply, found)
  })
}

function send(reply: FastifyReply, { status, headers, body }: Sent): FastifyReply {
  return reply.code(status).headers(headers).send(body)
}
