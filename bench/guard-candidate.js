// A leader in its own process, with or without a guard. It reports what its start and its renewals cost.
import { setTimeout as sleep } from 'node:timers/promises'
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'

const [, , url = '', guard, renewIntervalMs, steadyMs] = process.argv
const store = await openStore(url)
/** @type {number[]} */
const renewalMs = []
const elector = new Elector({
  store,
  election: `guard-cost-${process.pid}`,
  leaseDurationMs: 15_000,
  renewIntervalMs: Number(renewIntervalMs),
  releaseOnCrash: guard === 'guarded',
  observer: {
    onCall: ({ verb, durationMs }) => {
      if (verb === 'renew') renewalMs.push(durationMs)
    },
  },
})
// The connection exists before the measurement, with a guard and without one.
await store.read('guard-cost', { signal: AbortSignal.timeout(10_000), timeoutMs: 10_000 })
const startedMs = performance.now()
elector.start()
await elector.waitForLeadership()
const electedMs = performance.now() - startedMs

// By now the guard has started and connected.
await sleep(2_000)
renewalMs.length = 0
const before = process.cpuUsage()
process.send?.({ type: 'steady' })
await sleep(Number(steadyMs))
const { user, system } = process.cpuUsage(before)
process.send?.({ type: 'done', electedMs, cpuUs: user + system, renewalMs })
process.once('message', () => void elector.stop().then(() => process.exit()))
process.on('disconnect', () => process.exit())
