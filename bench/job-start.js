// How long after its time a job begins, with the note in a file in between; and what a thousand jobs that wait cost.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { memoryStore } from 'tenure'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const [times = 0, count = 0, steadyMs = 0] = process.argv.slice(2).map(Number)
console.log(JSON.stringify({ lateMs: await measureStarts(), ...(await measureMany()) }))

async function measureStarts() {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  const store = fileStore({ directory })
  const jobs = createJobs({ store })
  /** @type {number[]} */
  const lateMs = []
  await /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      jobs.every({ milliseconds: 100 }, { name: 'bench' }, ({ scheduledAt }) => {
        lateMs.push(Date.now() - scheduledAt.getTime())
        if (lateMs.length === times) resolve()
      })
    })
  )
  await jobs.close()
  await store.close?.()
  rmSync(directory, { recursive: true })
  return lateMs
}

async function measureMany() {
  const jobs = createJobs({ store: memoryStore() })
  globalThis.gc?.()
  const heapBefore = process.memoryUsage().heapUsed
  const startedMs = performance.now()
  for (let index = 0; index < count; index++) jobs.every({ days: 365 }, { name: `job-${index}` }, () => {})
  const isBehind = async () => (await jobs.status()).filter(({ term }) => term).length < count
  while (await isBehind()) await delay(10)
  const startMs = performance.now() - startedMs
  globalThis.gc?.()
  const heapBytesEach = (process.memoryUsage().heapUsed - heapBefore) / count
  const before = process.cpuUsage()
  const beganMs = performance.now()
  await delay(steadyMs)
  const { user, system } = process.cpuUsage(before)
  const cpuShare = (user + system) / 1e3 / (performance.now() - beganMs)
  await jobs.close()
  return { cpuShare, heapBytesEach, startMs }
}
