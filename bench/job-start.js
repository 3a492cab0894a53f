// Run with --expose-gc. Measures how late a job starts when its state is first written to a file, and what waiting jobs
// cost.
import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { memoryStore } from 'tenure'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

const [times = 0, count = 0, steadyMs = 0] = process.argv.slice(2).map(Number)
const { lateMs, bareMs } = await measureStarts()
const own = await measureMany()
const shared = await measureMany('all-jobs')
console.log(JSON.stringify({ lateMs, bareMs, own, shared }))

async function measureStarts() {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  const store = fileStore({ directory })
  const jobs = createJobs({ store })
  /** @type {number[]} */
  const lateMs = []
  const ran = /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      jobs.every({ milliseconds: 100 }, { name: 'bench' }, ({ scheduledAt }) => {
        lateMs.push(Date.now() - scheduledAt.getTime())
        if (lateMs.length === times) resolve()
      })
    })
  )
  // Also measures a timer and a disk write on their own, in between. On a busy machine they account for most of the
  // time.
  const [bareMs] = await Promise.all([measureBare(join(directory, 'bare')), ran])
  await jobs.close()
  await store.close?.()
  rmSync(directory, { recursive: true })
  return { lateMs, bareMs }
}

/** @param {string} path */
async function measureBare(path) {
  const bareMs = []
  for (let round = 0; round < times; round++) {
    const dueMs = Math.ceil(Date.now() / 100) * 100 + 50
    await delay(dueMs - Date.now())
    const file = await open(path, 'w')
    await file.writeFile('x'.repeat(1_000))
    await file.sync()
    await file.close()
    bareMs.push(Date.now() - dueMs)
  }
  return bareMs
}

/** @param {string} [sharedLeader] */
async function measureMany(sharedLeader) {
  const store = memoryStore()
  // The names, the store, and warm-up are not part of the cost per job.
  const names = Array.from({ length: count }, (_, index) => `job-${index}`)
  await warmUp(sharedLeader)
  /** @type {Set<string>} */
  const waiting = new Set()
  const onJob = (/** @type {import('tenure/jobs').JobEvent} */ { type, job }) =>
    void (type === 'scheduled' && waiting.add(job))
  const jobs = createJobs({ store, sharedLeader, observer: { onJob } })
  const heapBefore = await heapUsed()
  const startedMs = performance.now()
  for (const name of names) jobs.every({ days: 365 }, { name }, () => {})
  while (waiting.size < count) await delay(1)
  const startMs = performance.now() - startedMs
  await delay(1_000)
  const heapBytes = (await heapUsed()) - heapBefore
  const before = process.cpuUsage()
  const beganMs = performance.now()
  await delay(steadyMs)
  const { user, system } = process.cpuUsage(before)
  const cpuShare = (user + system) / 1e3 / (performance.now() - beganMs)
  const stoppingMs = performance.now()
  await jobs.close()
  return { cpuShare, heapBytes, startMs, stopMs: performance.now() - stoppingMs }
}

/** @param {string} [sharedLeader] */
async function warmUp(sharedLeader) {
  const jobs = createJobs({ store: memoryStore(), sharedLeader })
  jobs.every({ days: 365 }, { name: 'warm-up' }, () => {})
  while (!(await jobs.status())[0]?.term) await delay(1)
  await jobs.close()
}

/** Returns the lowest of several samples. Renewals continue meanwhile, and their garbage does not belong to a job. */
async function heapUsed() {
  const readings = []
  for (let round = 0; round < 5; round++) {
    globalThis.gc?.()
    readings.push(process.memoryUsage().heapUsed)
    await delay(50)
  }
  return Math.min(...readings)
}
