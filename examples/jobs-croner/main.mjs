// Croner runs in every process, and one of them runs the job. With jobs.every, which also uses croner, this is one
// line.
import { Cron } from 'croner'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const jobs = createJobs({ store: fileStore({ directory: './leases' }) })

// Croner does not handle errors thrown by its jobs by default, and a run that is stopped halfway rejects.
const onError = (/** @type {unknown} */ error) => console.error(`${process.pid}:`, error)

const own = new Cron('*/2 * * * * *', { catch: onError }, async () => {
  const outcome = await jobs.atMostOncePer({ milliseconds: 1_500 }, 'report', async () => report('croner'))
  console.log(`${process.pid}: ${outcome}`)
})

jobs.every('*/2 * * * * *', { name: 'other-report' }, async ({ scheduledAt }) => {
  report(`tenure for ${scheduledAt.toISOString()}`)
})

process.once('SIGTERM', () => {
  own.stop()
  void jobs.close()
})

/** @param {string} by */
function report(by) {
  console.log(`${process.pid}: reports by ${by}`)
}
