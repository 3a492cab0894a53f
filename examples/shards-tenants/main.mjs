// A job for each tenant: the tenants are spread over all processes, and each tenant's job runs in exactly one of them.
// Start it in several terminals, and stop one: the others run its tenants' jobs.
import { once } from 'node:events'
import { createJobs } from 'tenure/jobs'
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'

const stopping = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stopping.abort())
const store = fileStore({ directory: './leases' })

const shards = createShards({
  store,
  group: 'tenants',
  names: ['acme', 'globex', 'initech', 'umbrella'],
  leaseDurationMs: 3_000,
  async work({ name: tenant, token, signal }) {
    console.log(`${process.pid}: owns ${tenant} with token ${token}`)
    const jobs = createJobs({ store, leaseDurationMs: 3_000 })
    // The record of the job outlives its owner, so no scheduled time runs twice when the tenant moves.
    jobs.every({ seconds: 1 }, { name: `invoices.${tenant}`, maxRuntimeMs: 10_000 }, ({ scheduledAt }) => {
      console.log(`${process.pid}: ${tenant} at ${scheduledAt.toISOString()}`)
    })
    if (!signal.aborted) await once(signal, 'abort')
    // The tenant is handed over after its last run has settled.
    await jobs.close()
    console.log(`${process.pid}: leaves ${tenant}`)
  },
})
await shards.start()
await once(stopping.signal, 'abort')
await shards.stop()
