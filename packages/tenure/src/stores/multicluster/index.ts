/**
 * Keeps elections across clusters in MultiClusterLeases, which a controller connects to a global store.
 *
 * @module
 */
import { isObject } from '@tenure/internal/objects'
import { systemClock, type Clock } from '../../common/clock.ts'
import { ApiError } from '../../clients/kubernetes/api-error.ts'
import { clientOf, type AnyClient } from '../../clients/kubernetes/credentials/any-client.ts'
import type { KubernetesClient } from '../../clients/kubernetes/client.ts'
import { adviseOnNamespace, defaultNamespace, namespaceExists } from '../../kubernetes/namespaces.ts'
import { checkNamespace, leaseNameOf } from '../../kubernetes/codec/lease-name.ts'
import { defaultNamespaceHint, askRightsOn, type ElectionKind, type KubernetesRights } from '../../kubernetes/rights.ts'
import { inCluster } from '../../clients/kubernetes/credentials/service-account.ts'
import type { CallOptions, ListOptions, ListPage } from '../../engine/lease-store.ts'
import { candidateRecord } from '../../multicluster/protocol/answer-codec.ts'
import { kubernetesResources } from '../../multicluster/kubernetes-resources.ts'
import { readResource } from '../../multicluster/protocol/resource-codec.ts'
import { relayedStore } from '../../multicluster/relayed-store.ts'
import { resourceType, type MultiClusterLease } from '../../multicluster/protocol/resource-types.ts'
import { checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { listPage, pageOf } from '../../store-kit/list.ts'

/** Options of {@link multiclusterStore}. None is needed in a pod. */
export interface MulticlusterStoreOptions {
  /** Client of this cluster's API server. Default: `inCluster()`. */
  readonly client?: AnyClient | undefined
  /**
   * Namespace of the MultiClusterLeases. Default: the environment variable POD_NAMESPACE, or `default` if it is not
   * set.
   */
  readonly namespace?: string | undefined
  readonly clock?: Clock | undefined
}

/** The caller's permissions on the MultiClusterLease of one election. */
export type MulticlusterRights = KubernetesRights<'patch'>

/** A store whose elections span clusters, using the MultiClusterLeases of one namespace in each cluster. */
export interface MulticlusterStore extends InspectableStore {
  readonly namespace: string
  /** Whether the namespace exists. Undefined if the caller may not ask. */
  namespaceExists(options: CallOptions): Promise<boolean | undefined>
  /**
   * The caller's permissions on an election's MultiClusterLease, according to the API server. Undefined if it does not
   * say.
   */
  rights(election: string, options: CallOptions): Promise<MulticlusterRights | undefined>
}

const names: OptionNames<MulticlusterStoreOptions> = { client: true, namespace: true, clock: true }
const kind: ElectionKind<'patch'> = { ...resourceType, write: 'patch', manifests: 'deploy/multicluster/candidate' }
/** Limits for how many elections a process checks its permissions, in case it campaigns for many elections in turn. */
const mostExamined = 10

/**
 * Elects one leader across clusters. The store writes each call into a MultiClusterLease of this cluster, a controller
 * (`tenure controller`) carries it out on the global store, and the call returns the global store's answer. The program
 * needs neither access to the global store nor a client for it.
 *
 * @example
 * const store = multiclusterStore({ namespace: 'jobs' })
 * await lead({ store, election: 'nightly-report', identity: process.env.POD_NAME }, work)
 */
export function multiclusterStore(options: MulticlusterStoreOptions = {}): MulticlusterStore {
  checkOptions('multiclusterStore()', options, names)
  checkClock(options.clock)
  const { clock = systemClock, namespace = process.env['POD_NAMESPACE'] || defaultNamespace } = options
  checkNamespace('namespace', namespace)
  const client = options.client === undefined ? inCluster() : clientOf(options.client)
  if (options.namespace === undefined)
    adviseOnNamespace(client, 'namespace', { across: 'MultiCluster', scheme: 'multicluster' })
  const question = options.namespace === undefined ? defaultNamespaceHint(namespace) : ''
  const { resources, ...lock } = relayedStore(kubernetesResources(client, clock), namespace, clock)
  const rights = (election: string, call: CallOptions) =>
    askRightsOn(kind, client, { namespace, name: leaseNameOf(election) }, question, call)
  const examined = new Set<string>()
  return {
    ...lock,
    rights,
    namespaceExists: (call) => namespaceExists(client, namespace, call),
    async examine(election, call) {
      if (examined.has(election) || examined.size >= mostExamined) return []
      examined.add(election)
      const { missing } = (await rights(election, call)) ?? {}
      return missing ? [missing] : []
    },
    inspect: async () => resources().flatMap(findingsIn),
    list: (page, call) => listResources(client, namespace, page, call),
    async close() {
      await lock.close?.()
      client.close()
    },
  }
}

/** Lists the elections of this namespace as the controller of this cluster last saw them. */
async function listResources(
  client: KubernetesClient,
  namespace: string,
  page: ListOptions,
  call: CallOptions,
): Promise<ListPage> {
  const { after, limit } = pageOf(page)
  const { group, version, plural } = resourceType
  const query = new URLSearchParams({ limit: String(limit), ...(after !== undefined && { continue: after }) })
  const path = `/apis/${group}/${version}/namespaces/${namespace}/${plural}?${query.toString()}`
  const answer = await client.request({ method: 'GET', path, ...call })
  const { items, metadata } = isObject(answer.body) ? answer.body : {}
  if (answer.status !== 200 || !Array.isArray(items)) {
    const advice = 'Add "list" to the Role.'
    throw new ApiError(`Cannot list MultiClusterLeases in namespace "${namespace}"`, answer, advice)
  }
  const next = isObject(metadata) && typeof metadata['continue'] === 'string' ? metadata['continue'] : ''
  return listPage(items, next || undefined, (item: unknown) => {
    const { name = '', election = name, status } = readResource(item) ?? {}
    return status?.record && candidateRecord(election, status.record)
  })
}

/** The unhealthy conditions that a controller reports for an election. */
function findingsIn({ name, election = name, status }: MultiClusterLease): Finding[] {
  return (status.conditions ?? [])
    .filter((one) => (one.type === 'BackendHealthy' || one.type === 'Ready') && one.status === 'False')
    .map(({ reason, message }) => ({
      risk: 'tight',
      text: `The controller reports for election "${election}": ${reason}: ${message}`,
    }))
}
