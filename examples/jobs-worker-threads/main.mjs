// Every worker thread has the job, and one of them runs it, in this process or in another one on the same store.
import { isMainThread, threadId, Worker } from 'node:worker_threads'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

if (isMainThread) {
  const threads = Array.from({ length: 3 }, () => new Worker(new URL(import.meta.url)))
  console.log(`${threads.length} threads`)
} else {
  const jobs = createJobs({ store: fileStore({ directory: './leases' }), leaseDurationMs: 3_000 })
  jobs.every({ seconds: 1 }, { name: 'sync' }, async ({ scheduledAt }) => {
    console.log(`thread ${threadId} syncs for ${scheduledAt.toISOString()}`)
  })
}
