// A replica on a Lease with a guard process, in its own process. It reports when its belief starts and ends.
import { hrtime } from 'node:process'
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'

const [, , , election = '', identity, text = ''] = process.argv
/** @type {import('./kubernetes-fleet.js').Timings} */
const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = JSON.parse(text)

/** @param {'started' | 'stopped' | 'new-leader'} event */
function tell(event) {
  process.send?.({ event, identity, monotonicMs: Number(hrtime.bigint()) / 1e6 })
}

const elector = new Elector({
  store: await openStore('kubernetes://default'),
  election,
  identity,
  leaseDurationMs,
  renewDeadlineMs,
  renewIntervalMs: retryPeriodMs,
  retryIntervalMs: retryPeriodMs,
  releaseOnCrash: true,
  observer: {
    onEvent: ({ type }) => {
      if (type === 'elected') tell('started')
      if (type === 'lost') tell('stopped')
      if (type === 'new-leader') tell('new-leader')
    },
  },
})
process.once('SIGTERM', () => void elector.stop().then(() => process.exit()))
process.on('disconnect', () => process.exit())
elector.start()
