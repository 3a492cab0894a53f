// A process that campaigns for several Leases with the built package, and reports when it believes that it leads one.
import { fromKubeConfig, LeaderElector } from 'tenure/kubernetes'

/** @param {import('./side-by-side.ts').Campaign} campaign */
function run({ leaseName, leaseNamespace, identity, kubeConfig, timings }) {
  /** @param {'started' | 'stopped'} event */
  const tell = (event) =>
    process.send?.({ event, leaseName, identity, monotonicMs: Number(process.hrtime.bigint()) / 1e6 })
  const elector = new LeaderElector({
    client: fromKubeConfig(kubeConfig),
    leaseName,
    leaseNamespace,
    identity,
    ...timings,
    callbacks: { onStartedLeading: () => undefined },
    observer: {
      // Belief starts before the callback is called, and has ended when a loss is reported.
      onEvent({ type }) {
        if (type === 'elected') tell('started')
        if (type === 'lost') tell('stopped')
      },
    },
  })
  return elector.run()
}

// A campaign that rejects ends the process.
process.on('message', (/** @type {import('./side-by-side.ts').Campaign} */ campaign) => void run(campaign))
process.once('disconnect', () => process.exit())
