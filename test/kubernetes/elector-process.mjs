// A process that campaigns for a Lease with the built package, and reports its events.
import { Elector } from 'tenure'
import { fromKubeConfig, LeaderElector } from 'tenure/kubernetes'
import { kubernetesStore } from 'tenure/stores/kubernetes'

/** @type {import('./elector-process.ts').ChildOptions} */
const { style, kubeConfig, leaseName, namespace, identity, timings, recordEvents, brokenCallback } = JSON.parse(
  process.argv[2] ?? '',
)

/** @param {object} message */
const tell = (message) =>
  new Promise((resolve) => {
    if (process.connected) process.send?.({ ...message, atMs: Number(process.hrtime.bigint()) / 1e6 }, resolve)
  })

const client = fromKubeConfig(kubeConfig)

if (style === 'LeaderElector') {
  const stopping = new AbortController()
  process.once('SIGTERM', () => stopping.abort())
  const callbacks = {
    onStartedLeading: () => void tell({ event: 'started' }),
    onNewLeader: () => {
      if (brokenCallback) throw new Error('broken')
    },
  }
  // This elector has no observer, so its errors must appear in the log.
  const options = { client, leaseName, leaseNamespace: namespace, identity, recordEvents, callbacks, ...timings }
  const elector = new LeaderElector(options)
  await elector.run({ signal: stopping.signal })
  process.disconnect()
} else {
  const { retryPeriodMs, ...same } = timings
  const store = kubernetesStore({ client, namespace })
  const observer = { onEvent }
  const options = { store, election: leaseName, identity, observer, retryIntervalMs: retryPeriodMs, ...same }
  const elector = new Elector(options)
  process.on('message', (/** @type {string} */ command) => void commands[command]?.())
  let isStopped = false
  // From here on, nothing may keep this process alive.
  process.once('disconnect', () => isStopped || process.exit(1))

  /** @param {import('tenure').ElectionEvent} event */
  function onEvent(event) {
    if (event.type !== 'elected' && event.type !== 'lost') return
    void tell({ event: event.type, term: event.term })
    if (event.type === 'elected') void lead()
  }

  async function lead() {
    const { signal, term } = await elector.waitForLeadership()
    signal.addEventListener('abort', () => void tell({ event: 'aborted', term }), { once: true })
  }

  /** @type {Record<string, () => unknown>} */
  const commands = {
    campaign: () => elector.start(),
    stepDown: () => elector.stepDown({ cooldownMs: 0 }),
    askThroughPause,
    async stop() {
      await elector.stop()
      await store.close?.()
      isStopped = true
      process.disconnect()
    },
  }

  /** Calls isLeader() in a loop until a jump of the clock shows a pause, and reports the first answer after it. */
  async function askThroughPause() {
    const leapMs = 1_000
    const leadership = await elector.waitForLeadership()
    await tell({ event: 'asking' })
    let ledBefore = false
    for (let lastMs = performance.now(); ;) {
      const fromMs = performance.now()
      const leads = leadership.isLeader()
      const toMs = performance.now()
      // The process was paused inside the call, which may have read the clock before the pause. The next answer is the
      // first that counts.
      const first = toMs - fromMs > leapMs ? leadership.isLeader() : leads
      if (toMs - lastMs > leapMs) return tell({ event: 'resumed', ledBefore, leads: first })
      ledBefore = leads
      lastMs = toMs
    }
  }

  await tell({ event: 'ready' })
}
