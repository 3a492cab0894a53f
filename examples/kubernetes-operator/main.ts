// An operator with two replicas. For each ConfigMap with the label example.com/env-file=source it maintains another one
// that has the same values as a file: "web" yields "web-env" with "app.env". Only the leader watches and writes.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { hostname } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import {
  ApiException,
  CoreV1Api,
  createConfiguration,
  KubeConfig,
  ServerConfiguration,
  type V1ConfigMap,
} from '@kubernetes/client-node'
import type { Leadership } from 'tenure'
import { LeaderElector } from 'tenure/kubernetes'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { follow, WorkQueue } from './controller.ts'

const {
  POD_NAME: identity = hostname(),
  POD_NAMESPACE: namespace = 'default',
  LEASE_NAME = 'my-operator',
} = process.env
const say = (text: string) => console.log(`${identity} ${text}`)
const complain = (what: string, error: unknown) =>
  console.error(`${identity} ${what}: ${error instanceof Error ? error.message : String(error)}`)

const config = new KubeConfig()
config.loadFromDefault()
const api = new CoreV1Api(
  createConfiguration({
    baseServer: new ServerConfiguration(config.getCurrentCluster()?.server ?? '', {}),
    authMethods: { default: config },
    promiseMiddleware: [
      {
        async pre(request) {
          // A call without a timeout could prevent this work from ending, and this replica from leading again.
          request.setSignal(AbortSignal.timeout(5_000))
          return request
        },
        post: async (response) => response,
      },
    ],
  }),
)

const label = 'example.com/env-file'
const termAnnotation = 'example.com/term'
const suffix = '-env'

/** Runs only in the leader, until its signal aborts. The Lease is kept until this has settled. */
async function operate(leadership: Leadership): Promise<void> {
  const { signal, term } = leadership
  const queue = new WorkQueue(async (name) => {
    try {
      await reconcile(name, leadership)
    } catch (error) {
      if (!signal.aborted) complain(`tries ${name} again`, error)
      throw error
    }
  }, signal)
  const keyOf = { source: (name: string) => name, derived: (name: string) => name.slice(0, -suffix.length) }
  for (const kind of ['source', 'derived'] as const) {
    const labelSelector = `${label}=${kind}`
    follow(
      config,
      {
        path: `/api/v1/namespaces/${namespace}/configmaps`,
        labelSelector,
        list: () => api.listNamespacedConfigMap({ namespace, labelSelector }),
        onChange: ({ metadata }) => queue.add(keyOf[kind](metadata?.name ?? '')),
        onError: (error) => complain(`follows the ${kind} ConfigMaps again in a second`, error),
      },
      signal,
    )
  }
  say(`watches in term ${term}`)
  if (!signal.aborted) await once(signal, 'abort')
  await queue.settled()
  say('finished its work')
}

/** Brings one derived ConfigMap into its desired state, regardless of its current state. */
async function reconcile(name: string, leadership: Leadership): Promise<void> {
  const place = { name: name + suffix, namespace }
  const [source, derived] = await Promise.all([read(name), read(place.name)])
  if (derived && derived.metadata?.labels?.[label] !== 'derived')
    throw new Error(`ConfigMap ${place.name} does not belong to this operator.`)
  const { uid = '', resourceVersion = '' } = derived?.metadata ?? {}
  const isSource = source?.metadata?.labels?.[label] === 'source'
  const wanted = isSource ? derive(source, leadership.term, resourceVersion) : undefined
  if (wanted ? isDone(wanted, derived) : !derived) return
  const writtenIn = Number(derived?.metadata?.annotations?.[termAnnotation] ?? 0)
  if (writtenIn > leadership.term)
    throw new Error(
      `ConfigMap ${place.name} was written in term ${writtenIn}, but this leader has only term ${leadership.term}.`,
    )

  // The order makes this safe: read, check the lease by the clock, then write only to the version that was read. The
  // next leader starts after this line, and writes its own term into every object. So if this process is paused here,
  // its late write is rejected for each object that the next leader has written. The next leader sees and corrects
  // every other late write.
  leadership.throwIfLost()
  if (!wanted) await api.deleteNamespacedConfigMap({ ...place, body: { preconditions: { uid, resourceVersion } } })
  else if (!derived) await api.createNamespacedConfigMap({ namespace, body: wanted })
  else await api.replaceNamespacedConfigMap({ ...place, body: wanted })
  say(`${wanted ? 'wrote' : 'deleted'} ${place.name} in term ${leadership.term}`)
}

async function read(name: string): Promise<V1ConfigMap | undefined> {
  try {
    return await api.readNamespacedConfigMap({ name, namespace })
  } catch (error) {
    if (error instanceof ApiException && error.code === 404) return undefined
    throw error
  }
}

/** Returns the derived ConfigMap, as a write to this version. The version is empty for a new object. */
function derive(source: V1ConfigMap, term: number, resourceVersion: string): V1ConfigMap {
  const { metadata: { name = '', uid = '' } = {}, data = {} } = source
  const lines = Object.entries(data).map(([key, value]) => `${key}=${JSON.stringify(value)}\n`)
  return {
    metadata: {
      name: name + suffix,
      resourceVersion,
      labels: { [label]: 'derived' },
      annotations: { [termAnnotation]: String(term) },
      // No matter what happens to this operator, the cluster deletes the object together with its source.
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }],
    },
    data: { 'app.env': lines.toSorted().join('') },
  }
}

/**
 * Whether nothing has to be written. Correct values of a former leader are also written again, to record the new term.
 */
function isDone(wanted: V1ConfigMap, found: V1ConfigMap | undefined): boolean {
  const compared = ({ metadata, data }: V1ConfigMap) => [
    data?.['app.env'],
    metadata?.annotations?.[termAnnotation],
    metadata?.ownerReferences?.[0]?.uid,
  ]
  return found !== undefined && isDeepStrictEqual(compared(wanted), compared(found))
}

const stopping = new AbortController()
for (const name of ['SIGTERM', 'SIGINT']) process.once(name, () => stopping.abort())

const elector = new LeaderElector({
  client: config,
  leaseName: LEASE_NAME,
  leaseNamespace: namespace,
  identity,
  leaseDurationMs: Number(process.env.LEASE_DURATION_MS ?? 15_000),
  // Longer than a call may take, and well within the pod's terminationGracePeriodSeconds.
  drainTimeoutMs: 15_000,
  callbacks: {
    async onStartedLeading(_signal, leadership) {
      await operate(leadership).catch((error: unknown) => {
        // Failed work does not end leadership. So exit instead, and let another replica lead.
        complain('fails', error)
        process.exitCode = 1
        stopping.abort()
      })
    },
    onStoppedLeading: () => say('stopped leading'),
    onNewLeader: (leader) => say(`sees that ${leader || 'nobody'} leads`),
  },
  observer: {
    onEvent(event) {
      if (event.type === 'error' || event.type === 'renew-failed') complain(event.type, event.error)
    },
  },
})

const leases = kubernetesStore({ client: config, namespace })
let mayLead = false

/** Whether this replica could lead: it has the rights, and sees a leader. Standbys are also ready. */
async function isReady(): Promise<boolean> {
  // Check until the replica has its rights. If the API server does not answer this request, the election will show
  // that.
  if (!mayLead) {
    const rights = await leases.rights(LEASE_NAME, { signal: AbortSignal.timeout(1_500) })
    if (rights?.enough === false) return false
    mayLead = rights !== undefined
  }
  return elector.getLeader() !== ''
}

createServer((request, response) => {
  const { healthy, message } = elector.healthCheck()
  void (request.url === '/readyz' ? isReady() : Promise.resolve(healthy)).then((isWell) => {
    response.writeHead(isWell ? 200 : 503, { 'content-type': 'text/plain' }).end(`${message}\n`)
  })
}).listen(Number(process.env.PORT ?? 8080))

await elector.run({ signal: stopping.signal })
say('has ended')
process.exit()
