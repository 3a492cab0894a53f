// The program that deploy/kubernetes runs: several replicas, one of which works. In a pod it uses the pod's service
// account. Elsewhere it uses your kubeconfig, if that has a token or a client certificate: POD_NAME=a node main.mjs A
// kubeconfig with a login plugin needs a KubeConfig from @kubernetes/client-node:
// docs/guide/kubernetes.md#outside-a-cluster
import { createServer } from 'node:http'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { electionMetrics } from 'tenure'
import { fromKubeConfig, inCluster, LeaderElector } from 'tenure/kubernetes'
import { kubernetesStore } from 'tenure/stores/kubernetes'

const { POD_NAME: identity = hostname(), POD_NAMESPACE = 'default', LEASE_NAME = 'my-app' } = process.env
/** @param {string} text */
const say = (text) => console.log(`${identity} ${text}`)

const stopping = new AbortController()

/** Runs only in the leader. @param {AbortSignal} signal @param {number} term */
async function work(signal, term) {
  try {
    // Pass the signal to everything that takes a long time, and the term to every write: see docs/how-to/fencing.md.
    for (let round = 1; ; round++) {
      say(`works in term ${term}, round ${round}`)
      await wait(1_000, undefined, { signal })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
  // Winding down takes a moment. Nobody else leads before it is done.
  await wait(Number(process.env.WIND_DOWN_MS ?? 200))
  say('finished its work')
}

const client = process.env.KUBERNETES_SERVICE_HOST ? inCluster() : fromKubeConfig()
const metrics = electionMetrics()
const elector = new LeaderElector({
  client,
  leaseName: LEASE_NAME,
  leaseNamespace: POD_NAMESPACE,
  identity,
  leaseDurationMs: Number(process.env.LEASE_DURATION_MS ?? 15_000),
  // Must fit into the pod's terminationGracePeriodSeconds: docs/how-to/kubernetes-operations.md#how-long-may-a-pod-take-to-end
  drainTimeoutMs: 15_000,
  recordEvents: process.env.RECORD_EVENTS === 'true',
  callbacks: {
    async onStartedLeading(signal, { term }) {
      say(`started leading in term ${term}`)
      await work(signal, term).catch((error) => {
        // Failed work does not end leadership. So exit instead, and let another replica lead.
        console.error(error)
        process.exitCode = 1
        stopping.abort()
      })
    },
    onStoppedLeading: () => say('stopped leading'),
    onNewLeader: (leader) => say(`sees that ${leader || 'nobody'} leads`),
  },
  observer: {
    onCall: metrics.onCall,
    onEvent(event) {
      metrics.onEvent(event)
      if (event.type === 'lost') say(`lost term ${event.term}: ${event.reason}`)
      if (event.type !== 'error' && event.type !== 'renew-failed') return
      // Log every error, even a repeated one. The log then shows when a problem began, how long it lasted and how often
      // it occurred.
      const text = event.error instanceof Error ? event.error.message : String(event.error)
      console.error(`${identity} ${event.type}: ${text}`)
    },
  },
})

for (const name of ['SIGTERM', 'SIGINT']) {
  process.on(name, () => {
    // The second signal does not wait for the work. The lease is then not released, and expires.
    if (stopping.signal.aborted) process.exit(1)
    say('is asked to stop')
    stopping.abort()
  })
}

const leases = kubernetesStore({ client, namespace: POD_NAMESPACE })
let mayLead = false

/** Whether this replica could lead. Standbys are also ready. @returns {Promise<[status: number, text: string]>} */
async function readiness() {
  if (stopping.signal.aborted) return [503, 'The replica is stopping.']
  if (!mayLead) {
    // A standby needs fewer rights to see the leader than to take over. So check until it has all rights, so that a
    // rollout without them stops at its first pod. If the API server does not answer this request, the election will
    // show that.
    const rights = await leases.rights(LEASE_NAME, { signal: AbortSignal.timeout(1_500) })
    if (rights?.enough === false) return [503, String(rights.missing?.message)]
    mayLead = rights !== undefined
  }
  const leader = elector.getLeader()
  return leader ? [200, `The lease of ${leader} runs.`] : [503, 'No running lease is visible.']
}

/** Answers a probe. @param {string | undefined} path @returns {Promise<[status: number, text: string]>} */
async function answer(path) {
  if (path === '/readyz') return readiness()
  if (path !== '/healthz') return [404, 'The routes are /healthz, /readyz and /metrics.']
  const { healthy, message } = elector.healthCheck()
  return [healthy ? 200 : 503, message]
}
createServer((request, response) => {
  if (request.url === '/metrics') response.setHeader('content-type', metrics.contentType).end(metrics.text())
  else {
    void answer(request.url).then(([status, text]) => {
      response.writeHead(status, { 'content-type': 'text/plain' }).end(`${text}\n`)
    })
  }
}).listen(Number(process.env.PORT ?? 8080))

await elector.run({ signal: stopping.signal })
say('has ended')
// The server would keep the process alive. So would work that did not end in time, whose lease expires.
process.exit()
