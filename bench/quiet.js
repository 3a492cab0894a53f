// Checks whether this machine is quiet enough for figures that will be published.
import { availableParallelism } from 'node:os'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

/** If less than this share of all cores is free, a benchmark would measure the other programs. */
const quietShare = 0.93
/** The length of a bare loop. One loop takes about a millisecond. */
const turns = 1_000_000

/**
 * @typedef {object} Quietness
 * @property {number} freeShare the share of all cores that this process got when it asked for all of them
 * @property {number} bareLoopMs the fastest bare loop on one core, to compare the speed of machines
 */

/**
 * Runs a bare loop on every core at once. Other programs that want to run take time from it.
 *
 * @param {number} forMs
 * @returns {Promise<Quietness>}
 */
export async function measureQuietness(forMs) {
  const cores = availableParallelism()
  const workers = Array.from(
    { length: cores },
    () => new Worker(new URL(import.meta.url), { workerData: forMs, execArgv: [] }),
  )
  try {
    // All workers have started, so their start is not part of the measurement.
    await Promise.all(workers.map(nextMessage))
    const startedMs = performance.now()
    const before = process.cpuUsage()
    for (const worker of workers) worker.postMessage('begin', [])
    const fastest = await Promise.all(workers.map(nextMessage))
    const { user, system } = process.cpuUsage(before)
    const freeShare = Math.min(1, (user + system) / 1_000 / ((performance.now() - startedMs) * cores))
    return { freeShare, bareLoopMs: Math.min(...fastest) }
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
}

/** @param {Quietness} quietness */
export function isQuiet({ freeShare }) {
  return freeShare >= quietShare
}

/** @param {Quietness} quietness */
export function busyMessage({ freeShare }) {
  const [got, needed] = [freeShare, quietShare].map((share) => `${Math.round(share * 100)} %`)
  return [
    `The machine is busy: a bare loop on every core got ${got} of the cores, and published figures need ${needed}.`,
    'Nothing was measured or written. Wait until the machine is quiet, or add --dry-run to measure without writing.',
  ].join('\n')
}

/** @param {Worker} worker @returns {Promise<number>} */
function nextMessage(worker) {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}

/** @param {number} forMs @returns {number} the time of the fastest loop */
function loopFor(forMs) {
  const endMs = performance.now() + forMs
  let fastestMs = Infinity
  let sum = 0
  while (performance.now() < endMs) {
    const startedMs = performance.now()
    for (let turn = 0; turn < turns; turn++) sum = (sum + turn) | 0
    fastestMs = Math.min(fastestMs, performance.now() - startedMs)
  }
  // The sum is used. Otherwise the compiler could drop the loop.
  return Number.isInteger(sum) ? fastestMs : NaN
}

if (!isMainThread) {
  parentPort?.once('message', () => parentPort?.postMessage(loopFor(Number(workerData)), []))
  parentPort?.postMessage(0, [])
}
