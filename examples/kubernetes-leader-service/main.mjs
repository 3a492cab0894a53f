// A server whose leader alone gets requests, in one of the two ways of leader-service.mjs: LEADER_SERVICE=label, or
// LEADER_SERVICE=endpoints with POD_IP. deploy/kubernetes/components has the Service and the rights for each.
import { createServer } from 'node:http'
import { hostname } from 'node:os'
import { electionMetrics } from 'tenure'
import { fromKubeConfig, inCluster, LeaderElector } from 'tenure/kubernetes'
import { kubernetesStore } from 'tenure/stores/kubernetes'
import { labelLeader, publishLeader } from './leader-service.mjs'

const { POD_NAME: pod = hostname(), POD_NAMESPACE: namespace = 'default', LEASE_NAME = 'my-app' } = process.env
const { LEADER_SERVICE: way, POD_IP: address = '127.0.0.1', PORT = '8080' } = process.env

const stopping = new AbortController()
for (const name of ['SIGTERM', 'SIGINT']) process.once(name, () => stopping.abort())
const client = process.env.KUBERNETES_SERVICE_HOST ? inCluster() : fromKubeConfig()
/** @param {unknown} error */
const onError = (error) => console.error(`${pod} ${error instanceof Error ? error.message : String(error)}`)

const metrics = electionMetrics()
const elector = new LeaderElector({
  client,
  leaseName: LEASE_NAME,
  leaseNamespace: namespace,
  identity: pod,
  leaseDurationMs: Number(process.env.LEASE_DURATION_MS ?? 15_000),
  drainTimeoutMs: 15_000,
  recordEvents: process.env.RECORD_EVENTS === 'true',
  callbacks: {
    async onStartedLeading(_signal, leadership) {
      console.log(`${pod} leads in term ${leadership.term}`)
      const leading = { client, namespace, pod, leadership, onError }
      if (way === 'label') await labelLeader({ ...leading, selector: `app.kubernetes.io/name=${LEASE_NAME}` })
      else {
        const port = { name: 'http', port: Number(PORT) }
        await publishLeader({ ...leading, service: `${LEASE_NAME}-leader`, address, port })
      }
    },
    onStoppedLeading: () => console.log(`${pod} no longer leads`),
  },
  observer: {
    onEvent(event) {
      metrics.onEvent(event)
      if ('error' in event) onError(event.error)
    },
    onCall: metrics.onCall,
  },
})

const leases = kubernetesStore({ client, namespace })
let mayLead = false

/** Ready means that the replica could lead, not that it leads. Otherwise a rollout would wait forever. */
async function isReady() {
  // Check until the replica has its rights. If the API server does not answer this request, the election will show
  // that.
  if (!mayLead) {
    const rights = await leases.rights(LEASE_NAME, { signal: AbortSignal.timeout(1_500) })
    if (rights?.enough === false) return false
    mayLead = rights !== undefined
  }
  return elector.getLeader() !== ''
}

/** @param {string | undefined} path @returns {Promise<[status: number, text: string]>} */
async function answer(path) {
  if (path === '/healthz') return [elector.healthCheck().healthy ? 200 : 503, '']
  if (path === '/metrics') return [200, metrics.text()]
  if (path === '/readyz') return [(await isReady()) ? 200 : 503, '']
  // Endpoints can be stale, and clients keep connections. Only this check decides who answers.
  return elector.isLeader() ? [200, `${pod} leads\n`] : [503, `${pod} does not lead\n`]
}
createServer((request, response) => {
  void answer(request.url).then(([status, text]) => {
    response.writeHead(status, request.url === '/metrics' ? { 'content-type': metrics.contentType } : {}).end(text)
  })
}).listen(Number(PORT))

await elector.run({ signal: stopping.signal })
process.exit()
