// One candidate, in its own process. It campaigns in its cluster and reports its events to its parent.
import { hrtime } from 'node:process'
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'

const [, , identity = '', leaseDurationMs] = process.argv
const elector = new Elector({
  store: await openStore('multicluster://default'),
  election: 'demo',
  identity,
  leaseDurationMs: Number(leaseDurationMs),
  observer: {
    onEvent(event) {
      if (event.type === 'elected') tell({ type: 'elected', term: event.term })
      if (event.type === 'lost') tell({ type: 'lost', term: event.term, reason: event.reason })
    },
  },
})

function tellStatus() {
  const { phase, leaseEndsInMs = 0 } = elector.explain()
  tell({ type: 'status', term: elector.leader()?.term ?? 0, leaseEndsInMs, isWaiting: phase === 'standby' })
}

/** @param {import('./scene.ts').News} news */
function tell(news) {
  if (process.connected) process.send?.({ ...news, atMs: Number(hrtime.bigint()) / 1e6 })
}

process.on('message', () => void elector.stop().then(() => process.exit()))
// Without its parent, nothing would end this process.
process.on('disconnect', () => process.exit())
// Ctrl-C reaches the whole process group. The parent decides what to do.
process.on('SIGINT', () => {})

elector.start()
setInterval(tellStatus, 100)
