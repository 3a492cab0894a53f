// The program that deploy/kubernetes runs: several replicas, one of them works. In a pod it uses the pod's service
// account; elsewhere your kubeconfig, if that has a token or a client certificate: POD_NAME=a node main.mjs
// One with a login plugin needs a KubeConfig of @kubernetes/client-node: docs/kubernetes.md#outside-a-cluster
import { createServer } from 'node:http'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { fromKubeConfig, inCluster, LeaderElector } from 'tenure/kubernetes'

const { POD_NAME: identity = hostname(), POD_NAMESPACE = 'default', LEASE_NAME = 'my-app' } = process.env
/** @param {string} text */
const say = (text) => console.log(`${identity} ${text}`)

const stopping = new AbortController()
let knowsLeader = false
let lastError = ''

/** What only the leader does. @param {AbortSignal} signal @param {number} term */
async function work(signal, term) {
  try {
    // Hand the signal to all that takes long, and the term to all that is written: see docs/fencing.md.
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

const elector = new LeaderElector({
  client: process.env.KUBERNETES_SERVICE_HOST ? inCluster() : fromKubeConfig(),
  leaseName: LEASE_NAME,
  leaseNamespace: POD_NAMESPACE,
  identity,
  // Must fit into the pod's terminationGracePeriodSeconds, with a third of the lease to give it back.
  drainTimeoutMs: 15_000,
  recordEvents: process.env.RECORD_EVENTS === 'true',
  callbacks: {
    async onStartedLeading(signal, { term }) {
      say(`started leading in term ${term}`)
      await work(signal, term).catch((error) => {
        // Failed work does not end leadership by itself. This program ends instead, so that another replica leads.
        console.error(error)
        process.exitCode = 1
        stopping.abort()
      })
    },
    onStoppedLeading: () => say('stopped leading'),
    onNewLeader(leader) {
      knowsLeader = true
      say(`sees that ${leader} leads`)
    },
  },
  observer: {
    onEvent(event) {
      if (event.type !== 'error' && event.type !== 'renew-failed') return
      // What fails is tried again, and says the same each time.
      const text = event.error instanceof Error ? event.error.message : String(event.error)
      if (text !== lastError) console.error(`${identity} ${event.type}: ${text}`)
      lastError = text
    },
  },
})

for (const name of ['SIGTERM', 'SIGINT']) {
  process.on(name, () => {
    // The second one does not wait for the work. The lease is not given back then: it runs out.
    if (stopping.signal.aborted) process.exit(1)
    say('is asked to end')
    stopping.abort()
  })
}

/** What a probe is told. @param {string | undefined} path @returns {[status: number, text: string]} */
function probed(path) {
  if (path === '/healthz') {
    const { healthy, message } = elector.healthCheck()
    return [healthy ? 200 : 503, message]
  }
  if (path !== '/readyz') return [404, 'There is /healthz and /readyz.']
  if (stopping.signal.aborted) return [503, 'It is ending.']
  // A replica without the right to read its Lease never gets ready, so a rollout ends there.
  return knowsLeader ? [200, 'It knows who leads.'] : [503, 'It does not know yet who leads.']
}
createServer((request, response) => {
  const [status, text] = probed(request.url)
  response.writeHead(status, { 'content-type': 'text/plain' }).end(`${text}\n`)
}).listen(Number(process.env.PORT ?? 8080))

await elector.run({ signal: stopping.signal })
say('has ended')
// Also if work did not end in time: its lease runs out, and others lead soon.
process.exit()
