// Run with --expose-gc. Measures thousands of electors in one process, on the memory store, with the default lease of
// 15 s.
import { setTimeout as sleep } from 'node:timers/promises'
import { Elector, memoryStore } from 'tenure'

const [elections, candidates, steadyMs] = process.argv.slice(2).map(Number)
const count = (elections ?? 0) * (candidates ?? 0)

const store = memoryStore()
// Names, modules, and warm-up are not part of the cost per elector.
const names = Array.from({ length: elections ?? 0 }, (_, index) => `election-${index}`)
await warmUp()

const heapBefore = await heapUsed()
const startedAtMs = performance.now()
const cpuAtStart = process.cpuUsage()
const electors = names.flatMap((election) =>
  Array.from(
    { length: candidates ?? 0 },
    (_, index) => new Elector({ store, election, identity: `candidate-${index}` }),
  ),
)
for (const elector of electors) elector.start()
while (leaders() < names.length) await sleep(0)
const startMs = performance.now() - startedAtMs
const startCpuMs = cpuMs(cpuAtStart)

// By now standbys have read their leader's record, and the garbage of the start has been collected.
await sleep(1_000)
const heapAfter = await heapUsed()

const cpuBefore = process.cpuUsage()
const steadyFromMs = performance.now()
await sleep(steadyMs)
const cpuShare = cpuMs(cpuBefore) / (performance.now() - steadyFromMs)
const led = leaders()

const stoppingAtMs = performance.now()
const cpuAtStop = process.cpuUsage()
await Promise.all(electors.map((elector) => elector.stop()))
const stopMs = performance.now() - stoppingAtMs

const stopCpuMs = cpuMs(cpuAtStop)
const heapBytesEach = (heapAfter - heapBefore) / count
console.log(JSON.stringify({ led, startMs, startCpuMs, stopMs, stopCpuMs, heapBytesEach, cpuShare }))

/** @param {NodeJS.CpuUsage} since */
function cpuMs(since) {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

function leaders() {
  return electors.filter((elector) => elector.isLeader()).length
}

/**
 * Returns the lowest of several samples. Renewals continue meanwhile, and their garbage does not belong to an elector.
 */
async function heapUsed() {
  const readings = []
  for (let round = 0; round < 5; round++) {
    globalThis.gc?.()
    readings.push(process.memoryUsage().heapUsed)
    await sleep(50)
  }
  return Math.min(...readings)
}

async function warmUp() {
  const elector = new Elector({ store: memoryStore(), election: 'warm-up' })
  elector.start()
  await elector.waitForLeadership()
  await elector.stop()
}
