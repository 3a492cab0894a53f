// A replica on a Lease, in its own process. It reports when its belief starts and ends, on the machine's clock.
import { once } from 'node:events'
import { hrtime } from 'node:process'
import { fromKubeConfig, LeaderElector } from 'tenure/kubernetes'

const [, , kubeConfig = '', leaseName = '', identity, timings = ''] = process.argv

/** @param {'started' | 'stopped' | 'new-leader'} event */
function tell(event) {
  process.send?.({ event, identity, monotonicMs: Number(hrtime.bigint()) / 1e6 })
}

const elector = new LeaderElector({
  client: fromKubeConfig(kubeConfig),
  leaseName,
  leaseNamespace: 'default',
  identity,
  ...JSON.parse(timings),
  callbacks: {
    async onStartedLeading(signal) {
      tell('started')
      if (!signal.aborted) await once(signal, 'abort')
    },
    onStoppedLeading: () => tell('stopped'),
    onNewLeader: (leader) => leader && tell('new-leader'),
  },
})
// The parent asks what this replica knows.
process.on('message', () => {
  const { seat, newerGeneration } = elector.explain()
  process.send?.({ seat, newerGeneration })
})
const controller = new AbortController()
process.once('SIGTERM', () => controller.abort())
process.on('disconnect', () => process.exit())
await elector.run({ signal: controller.signal })
process.exit()
