// One of the processes that pm2 starts in cluster mode. Each has the job, and one of them runs it.
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const jobs = createJobs({ store: fileStore({ directory: './leases' }), leaseDurationMs: 3_000 })
jobs.every({ seconds: 1 }, { name: 'sync' }, async ({ scheduledAt }) => {
  console.log(`${process.pid}: syncs for ${scheduledAt.toISOString()}`)
})

// pm2 sends SIGINT, and kills the process after kill_timeout.
process.once('SIGINT', () => void jobs.close().then(() => process.exit()))
