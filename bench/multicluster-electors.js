// Many leaders in one process, each in its own election, through the MultiClusterLeases of one cluster.
import { Elector } from 'tenure'
import { fromKubeConfig } from 'tenure/kubernetes'
import { multiclusterStore } from 'tenure/stores/multicluster'

const [, , prefix = '', count, leaseDurationMs] = process.argv
/** How many campaign at a time. A fleet does not start within one second. */
const atOnce = 5
let lost = 0

const store = multiclusterStore({ client: fromKubeConfig(), namespace: 'default' })
const electors = Array.from({ length: Number(count) }, (_, index) => {
  return new Elector({
    store,
    election: `${prefix}-${index}`,
    identity: prefix,
    leaseDurationMs: Number(leaseDurationMs),
    observer: { onEvent: ({ type }) => void (lost += Number(type === 'lost')) },
  })
})
process.on('message', () => process.send?.({ lost, led: electors.filter((elector) => elector.isLeader()).length }))
process.on('disconnect', () => process.exit())
const waiting = electors.values()
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    for (const elector of waiting) {
      elector.start()
      await elector.waitForLeadership()
    }
  }),
)
process.send?.('led')
