import type { CallOptions } from '../lease-store.ts'
import { adviseOnce } from '../advice.ts'
import { reasonOf } from './client/api-error.ts'
import type { KubernetesClient } from './client/client.ts'

/** Where Leases are kept by default. */
export const defaultNamespace = 'default'

/** Clients that were examined: an elector does so by its own option, and then its store does. */
const advised = new WeakSet<KubernetesClient>()

/**
 * Warns once if Leases are kept in `default` although the pod or the context is in another namespace. With rights in the
 * whole cluster nothing else would show it: programs of two namespaces would share a Lease of the same name.
 */
export function adviseOnNamespace(
  client: KubernetesClient,
  option: 'namespace' | 'leaseNamespace',
  { across, scheme } = { across: '', scheme: 'kubernetes' },
): void {
  if (process.env['POD_NAMESPACE']) return
  if (advised.has(client)) return
  advised.add(client)
  const home = client.home?.()
  if (!home || home.namespace === defaultNamespace) return
  const kept = `${across}Leases are kept in the namespace "default", and POD_NAMESPACE is not set.`
  const danger = `With rights in the whole cluster, equal names of two namespaces would share one ${across}Lease.`
  const byUrl = option === 'namespace' ? ` (in a URL: ${scheme}://${home.namespace})` : ''
  const passed = `${option}: ${JSON.stringify(home.namespace)}${byUrl}`
  adviseOnce(
    'INVALID_OPTION',
    `${kept} ${home.said} ${danger} Set POD_NAMESPACE, in a pod by the downward API, or pass ${passed}.`,
  )
}

/** Whether that namespace exists; undefined if the caller may not ask. */
export async function namespaceExists(
  client: KubernetesClient,
  namespace: string,
  call: CallOptions,
): Promise<boolean | undefined> {
  const answer = await client.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}`, ...call })
  if (answer.status === 200) return true
  return answer.status === 404 && reasonOf(answer) === 'NotFound' ? false : undefined
}
