// A controller with callbacks. Start it as two replicas: the second one takes over when the first gets SIGTERM. It
// exits after RUN_SECONDS.
import { setTimeout as wait } from 'node:timers/promises'
import { LeaderElector } from 'tenure/kubernetes'
import { fileStore } from 'tenure/stores/file'

const identity = process.env.POD_NAME ?? `pod-${process.pid}`
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
const timeUp = setTimeout(() => stopping.abort(), Number(process.env.RUN_SECONDS ?? 3) * 1_000)

const elector = new LeaderElector({
  store: fileStore({ directory: './leases' }),
  leaseName: 'my-controller',
  leaseNamespace: 'default',
  identity,
  leaseDurationMs: 3_000,
  callbacks: {
    async onStartedLeading(signal, { term }) {
      console.log(`${identity} started leading in term ${term}`)
      while (!signal.aborted) await wait(100, undefined, { signal }).catch(() => undefined)
      console.log(`${identity} finished its work`)
    },
    onStoppedLeading: () => console.log(`${identity} stopped leading`),
    onNewLeader: (leader) => console.log(`${identity} sees that ${leader || 'nobody'} leads`),
  },
})

await elector.run({ signal: stopping.signal })
clearTimeout(timeUp)
console.log(`${identity} leads: ${elector.isLeader()}`)
