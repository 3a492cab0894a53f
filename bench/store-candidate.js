// A candidate in its own process. It reports its events, on the machine's clock.
import { hrtime } from 'node:process'

const [, , contender = '', url = '', election = '', identity = '', leaseDurationMs] = process.argv
/** @type {{ takePart: import('./contenders/take-turns.js').TakePart }} */
const { takePart } = await import(`./contenders/${contender}.js`)
const release = await takePart({ url, election, identity, leaseDurationMs: Number(leaseDurationMs), tell })

/** @param {import('./contenders/take-turns.js').Told['event']} event */
function tell(event) {
  process.send?.({ event, monotonicMs: Number(hrtime.bigint()) / 1e6 })
}

process.on('message', () => {
  tell('releases')
  void release()
})
process.on('disconnect', () => process.exit())
