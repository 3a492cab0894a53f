// A schedule and a queue: one process puts each scheduled time into BullMQ, and its workers do the work, with retries.
import { Queue, Worker } from 'bullmq'
import { createJobs } from 'tenure/jobs'
import { openStore } from 'tenure/stores'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const connection = { host: new URL(url).hostname, port: Number(new URL(url).port), maxRetriesPerRequest: null }
const queue = new Queue('invoices', { connection })
const worker = new Worker('invoices', send, { connection })
const jobs = createJobs({ store: await openStore(url), leaseDurationMs: 3_000 })

jobs.every({ seconds: 1 }, { name: 'invoices' }, async ({ scheduledAt }) => {
  // The id makes it a single entry in the queue, no matter how often it is added.
  await queue.add('send', {}, { jobId: `invoices-${scheduledAt.getTime()}`, attempts: 5 })
})

process.once('SIGTERM', () => void Promise.all([jobs.close(), worker.close()]).then(() => process.exit()))

/** @param {{ id?: string }} job */
async function send({ id }) {
  console.log(`${process.pid}: sends ${id}`)
}
