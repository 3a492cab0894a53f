// Jobs once per fleet. Start it in several terminals: one process runs each scheduled time, and the migration runs only
// once.
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const stopping = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stopping.abort())
const store = fileStore({ directory: './leases' })
const jobs = createJobs({ store, signal: stopping.signal, leaseDurationMs: 3_000 })

console.log(`${process.pid}: the migration ${await jobs.once('migrate-v42', async () => console.log('migrates'))}`)

jobs.every({ seconds: 1 }, { name: 'sync', maxRuntimeMs: 10_000 }, async ({ scheduledAt, term }) => {
  console.log(`${process.pid}: syncs for ${scheduledAt.toISOString()} in term ${term}`)
})
