// A Fastify server whose jobs run in one of its processes. They start when the server is ready, and stop with it.
import Fastify from 'fastify'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const app = Fastify()
const jobs = createJobs({ store: fileStore({ directory: './leases' }), leaseDurationMs: 3_000 })

app.addHook('onReady', async () => void jobs.every({ seconds: 1 }, { name: 'sync' }, async (run) => sync(run)))
app.addHook('onClose', () => jobs.close())
app.get('/jobs', () => jobs.status())

console.log(`${process.pid}: listens at ${await app.listen({ port: Number(process.env.PORT ?? 0) })}`)
process.once('SIGTERM', () => void app.close())

/** @param {{ scheduledAt: Date }} run */
function sync({ scheduledAt }) {
  console.log(`${process.pid}: syncs for ${scheduledAt.toISOString()}`)
}
