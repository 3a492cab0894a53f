// A process that leads elections with a guard, and crashes on command.
import { spawn } from 'node:child_process'
import { closeSync, readdirSync, readlinkSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { Elector, electionMetrics } from '../../../dist/index.js'
import { openStore } from '../../../dist/stores/index.js'

/** @type {{ url: string, elections: string[], identity?: string, leaseDurationMs?: number, storeUrl?: string, waits?: boolean, logs?: boolean, present?: boolean }} */
const options = JSON.parse(process.argv[2] ?? '')
const { url, elections, identity, leaseDurationMs = 15_000, storeUrl, waits = false, logs = false, present } = options
const releaseOnCrash = storeUrl === undefined ? true : { storeUrl }
const store = await openStore(url)
const metrics = electionMetrics()
const log = logs ? undefined : false
const pipesBefore = pipes()
const electors = elections.map(
  (election) =>
    new Elector({ store, election, identity, leaseDurationMs, releaseOnCrash, present, log, observer: metrics }),
)
if (waits) await connect()
else await start()

async function start() {
  for (const elector of electors) elector.start()
  for (const elector of electors) await elector.waitForLeadership()
  process.send?.({ type: 'leads' })
}

/** Leads another election first, so that the connection exists and the server knows all scripts. */
async function connect() {
  const elector = new Elector({ store, election: `before ${elections[0]}`, identity, log: false })
  elector.start()
  await elector.waitForLeadership()
  await elector.stop()
  process.send?.({ type: 'ready' })
}

/** The sockets of this process, including its end of the pipe to the guard. */
function pipes() {
  const found = []
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${name}`).startsWith('socket:')) found.push(Number(name))
    } catch {
      // The descriptor of the listing itself.
    }
  }
  return found
}

/** @type {Record<string, () => void>} */
const actions = {
  start: () => void start(),
  'start a child': () => {
    const child = spawn('sleep', ['60'], { stdio: 'inherit', detached: true })
    process.send?.({ type: 'child', id: child.pid })
  },
  abort: () => process.abort(),
  exit: () => process.exit(3),
  throw: () => void setImmediate(() => JSON.parse('{')),
  reject: () => void Promise.reject(new Error('nobody handles this')),
  'out of memory': () => {
    const kept = []
    for (;;) kept.push(Array.from({ length: 100_000 }, () => kept.length))
  },
  'busy worker': () =>
    void new Worker('for (;;);', { eval: true }).once('online', () => process.send?.({ type: 'done' })),
  'close the pipe': () => {
    for (const descriptor of pipes()) {
      if (pipesBefore.includes(descriptor)) continue
      // The connection of the store stays, because it was opened earlier.
      closeSync(descriptor)
    }
    process.send?.({ type: 'done' })
  },
  metrics: () => process.send?.({ type: 'measured', text: metrics.text() }),
  explain: () => process.send?.({ type: 'explained', explanation: electors[0]?.explain() }),
  stop: () => void Promise.all(electors.map((elector) => elector.stop())).then(() => process.send?.({ type: 'done' })),
}
process.on('message', (name) => actions[String(name)]?.())
