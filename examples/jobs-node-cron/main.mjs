// Every process runs node-cron, and one of them runs the task. The interval is a little shorter than the schedule.
import cron from 'node-cron'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const jobs = createJobs({ store: fileStore({ directory: './leases' }) })

cron.schedule('*/2 * * * * *', async () => {
  const outcome = await jobs.atMostOncePer({ milliseconds: 1_500 }, 'report', async () => report())
  console.log(`${process.pid}: ${outcome}`)
})

function report() {
  console.log(`${process.pid}: reports`)
}
