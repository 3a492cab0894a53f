import type { CallOptions } from '../engine/lease-store.ts'
import { warnOnce } from '../log/advice.ts'
import { reasonOf } from '../clients/kubernetes/api-error.ts'
import type { KubernetesClient } from '../clients/kubernetes/client.ts'

/** The default namespace for Leases. */
export const defaultNamespace = 'default'

/** Clients that were already checked. An elector checks its own option, and its store would then check again. */
const advised = new WeakSet<KubernetesClient>()

/**
 * Warns once if Leases are kept in `default` although the pod or the context is in another namespace. With cluster-wide
 * permissions, nothing else would reveal the mistake: programs in two namespaces would share a Lease of the same name.
 */
export function adviseOnNamespace(
  client: KubernetesClient,
  option: 'namespace' | 'leaseNamespace',
  { across, scheme } = { across: '', scheme: 'kubernetes' },
): void {
  if (process.env['POD_NAMESPACE']) return
  if (advised.has(client)) return
  advised.add(client)
  const configured = client.configuredNamespace?.()
  if (!configured || configured.namespace === defaultNamespace) return
  const kept = `${across}Leases are kept in the namespace "default", because POD_NAMESPACE is not set.`
  const danger = `With cluster-wide permissions, elections with the same name in two namespaces would share one ${across}Lease.`
  const byUrl = option === 'namespace' ? ` (in a URL: ${scheme}://${configured.namespace})` : ''
  const passed = `${option}: ${JSON.stringify(configured.namespace)}${byUrl}`
  warnOnce(
    'INVALID_OPTION',
    `${kept} ${configured.description} ${danger} Set POD_NAMESPACE (in a pod with the downward API), or pass ${passed}.`,
  )
}

/** Whether the namespace exists. Undefined if the caller may not ask. */
export async function namespaceExists(
  client: KubernetesClient,
  namespace: string,
  call: CallOptions,
): Promise<boolean | undefined> {
  const answer = await client.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}`, ...call })
  if (answer.status === 200) return true
  return answer.status === 404 && reasonOf(answer) === 'NotFound' ? false : undefined
}
