import { answerOf, serve, type Exchange, type TlsServer } from '../clients/kubernetes/tls-server.ts'

/** A Lease as an API server keeps it. */
export interface KeptLease {
  readonly metadata: { readonly name: string; readonly resourceVersion: string; readonly uid: string }
  readonly spec: Readonly<Record<string, unknown>>
}

/** A server with the Leases of one namespace. Supports get, create and update of the version that the caller names. */
export interface LeaseApiServer extends TlsServer {
  readonly leases: ReadonlyMap<string, KeptLease>
}

const collection = '/apis/coordination.k8s.io/v1/namespaces/jobs/leases'

/** Starts the server. It refuses requests as kube-apiserver does, and supports no other routes. */
export async function serveLeases(): Promise<LeaseApiServer> {
  const leases = new Map<string, KeptLease>()
  let writes = 0
  const keep = (name: string, body: unknown, uid: string): KeptLease => {
    const { metadata, ...lease } = body as KeptLease
    const kept = { ...lease, metadata: { ...metadata, name, uid, resourceVersion: String(++writes) } }
    leases.set(name, kept)
    return kept
  }

  const post = (body: unknown): string => {
    const { name } = (body as KeptLease).metadata
    if (leases.has(name)) return refusal('409 Conflict', 'AlreadyExists')
    return answerOf(keep(name, body, `uid-${writes}`), { status: '201 Created' })
  }

  const put = (name: string, body: unknown): string => {
    const found = leases.get(name)
    if (!found) return refusal('404 Not Found', 'NotFound')
    const { resourceVersion } = (body as KeptLease).metadata
    if (resourceVersion !== found.metadata.resourceVersion) return refusal('409 Conflict', 'Conflict')
    return answerOf(keep(name, body, found.metadata.uid))
  }

  const get = (name: string): string => {
    const found = leases.get(name)
    return found ? answerOf(found) : refusal('404 Not Found', 'NotFound')
  }

  const answer = ({ line, text }: Exchange): string => {
    const [method, path = ''] = line.split(' ')
    const body: unknown = JSON.parse(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1').toString() || '{}')
    const name = path.startsWith(`${collection}/`) ? path.slice(collection.length + 1) : undefined
    if (method === 'POST' && path === collection) return post(body)
    if (method === 'PUT' && name !== undefined) return put(name, body)
    if (method === 'GET' && name !== undefined) return get(name)
    return refusal('405 Method Not Allowed', 'MethodNotAllowed')
  }

  const server = await serve((exchange) => void exchange.socket.write(answer(exchange)))
  return Object.assign(server, { leases })
}

function refusal(status: string, reason: string): string {
  const code = Number(status.slice(0, 3))
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', message: `leases: ${reason}`, reason, code }
  return answerOf(body, { status })
}
