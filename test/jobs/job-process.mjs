// One process of a fleet that runs jobs. It logs when each run starts, works, and ends.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

/** @type {import('./fleet.ts').RunnerOptions} */
const {
  url,
  identity,
  jobs: names,
  intervalMs,
  leaseDurationMs,
  logPath,
  aheadMs,
  library,
  sharedLeader,
} = JSON.parse(process.argv[2] ?? '')

/**
 * @param {string} name
 * @param {string} file
 */
const load = (name, file) => import(library ? pathToFileURL(`${library}/dist/${file}`).href : name)

/** @type {[typeof import('tenure/jobs'), typeof import('tenure/stores')]} */
const [{ createJobs }, { openStore }] = await Promise.all([
  load('tenure/jobs', 'jobs/index.js'),
  load('tenure/stores', 'stores/index.js'),
])

/** The machine's monotonic clock, which all processes share. */
const now = () => Number(process.hrtime.bigint()) / 1e6

const logFile = openSync(logPath, 'a')
/** @param {import('./check-runs.ts').RunLine} line */
const log = (line) => void writeSync(logFile, `${JSON.stringify(line)}\n`)

/** The wall clock of this process, which may be wrong. */
const clock = {
  monotonicMs: () => performance.now(),
  machineMs: now,
  bootMs: () => now(),
  wallMs: () => Date.now() + aheadMs,
  /**
   * @param {number} delayMs
   * @param {() => void} callback
   * @param {{ background?: boolean }} [options]
   */
  setTimer(delayMs, callback, options) {
    const timer = setTimeout(callback, Math.max(0, Math.ceil(delayMs)))
    if (options?.background) timer.unref()
    return { cancel: () => clearTimeout(timer) }
  },
  random: () => Math.random(),
  randomId: () => crypto.randomUUID(),
}

const store = await openStore(url)
const observer = { onEvent: () => {}, onJob: () => {} }
const jobs = createJobs({ store, identity, leaseDurationMs, clock, observer, ...(sharedLeader && { sharedLeader }) })
for (const name of names) {
  jobs.every({ milliseconds: intervalMs }, { name }, async ({ scheduledAt, term, signal, isLeader }) => {
    const run = { job: name, slotMs: scheduledAt.getTime(), by: identity, term }
    log({ event: 'begin', ...run, at: now() })
    const untilMs = now() + 50 + Math.random() * 500
    while (now() < untilMs && !signal.aborted) {
      // Read the clock before the check, because the process may be paused between the two.
      const at = now()
      if (!signal.aborted && isLeader()) log({ event: 'works', ...run, at })
      await delay(40)
    }
    signal.throwIfAborted()
    log({ event: 'end', ...run, at: now() })
  })
}
process.send?.('ready')
process.once('SIGTERM', () => void end())

async function end() {
  await jobs.close()
  await store.close?.()
  process.exit()
}
