// npm run demo: three candidates on the file store. Every few seconds something bad happens to the leader.
import { parseArgs } from 'node:util'
import { Fleet, inMs, machineMs, seconds } from './fleet.js'
import { Screen } from './screen.js'

const usage = `npm run demo -- [--seconds N] [--every N]

  --seconds N   end after N seconds (default: never in a terminal, else 20)
  --every N     harm the leader N seconds after it was elected (default: 6)`

const live = process.stdout.isTTY
const { endAfterMs, everyMs } = readOptions()

const startedAtMs = machineMs()
const fleet = new Fleet(log, planNext)
const screen = new Screen(fleet)
/** @type {('kill' | 'pause' | 'stop')[]} */
const harms = ['kill', 'pause', 'stop']
let harmed = 0
let nextAtMs = Infinity
let ending = false

// Whatever ends this program, the terminal and the processes are put in order.
process.on('exit', () => {
  screen.close()
  fleet.endNow()
})
for (const [signal, code] of Object.entries({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 })) {
  process.on(signal, () => void end(code))
}
// Whoever read what this prints is gone.
process.stdout.on('error', () => void end(0))
if (live) {
  screen.open()
  listenToKeys()
} else {
  console.log('Tenure: three processes, one leader. They share a folder of this machine; no server runs.')
}
fleet.start()
const ticking = setInterval(tick, 100)

function tick() {
  const nowMs = machineMs()
  if (nowMs >= startedAtMs + endAfterMs) return void end(0)
  const next = harms[harmed % harms.length] ?? 'kill'
  screen.draw(nextAtMs === Infinity ? '' : `by itself: ${next} in ${seconds(Math.max(0, nextAtMs - nowMs))}`)
  if (nowMs < nextAtMs) return
  harmed += 1
  harm(next)
}

/** @param {'kill' | 'pause' | 'stop'} how */
function harm(how) {
  nextAtMs = Infinity
  fleet[how]()
}

/** The next harm counts from an election, so that each can be watched to its end. */
function planNext() {
  nextAtMs = machineMs() + everyMs
}

/** @param {string} text */
function log(text) {
  const line = `[${seconds(machineMs() - startedAtMs).padStart(6)}] ${text}`
  if (live) screen.add(line)
  else console.log(line)
}

function listenToKeys() {
  const { stdin } = process
  if (!stdin.isTTY) return
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stdin.on('data', (keys) => {
    for (const key of String(keys)) {
      if (key === 'k') harm('kill')
      if (key === 'p') harm('pause')
      if (key === 's') harm('stop')
      if (key === 'q' || key === '\u0003') void end(0)
    }
  })
}

/** @param {number} code */
async function end(code) {
  if (ending) return
  ending = true
  clearInterval(ticking)
  await fleet.end()
  screen.close()
  console.log(summary())
  console.log('Next: npm test runs everything, README.md shows how to use it in your own code.')
  process.exit(code)
}

function summary() {
  const { takeovers, highestTerm } = fleet
  const times = [...new Set(takeovers.map(({ harm }) => harm))].map((harm) => {
    const sorted = takeovers.filter((one) => one.harm === harm).toSorted((a, b) => a.tookMs - b.tookMs)
    return `${harm}: ${inMs(sorted[Math.floor(sorted.length / 2)]?.tookMs ?? 0)}`
  })
  const details = times.length > 0 ? ` (median after the leader was ${times.join(', ')})` : ''
  const count = takeovers.length === 1 ? '1 take-over' : `${takeovers.length} take-overs`
  return `${count} in ${seconds(machineMs() - startedAtMs)}, terms 1 to ${highestTerm}${details}.`
}

function readOptions() {
  try {
    const { values } = parseArgs({ options: { seconds: { type: 'string' }, every: { type: 'string' } } })
    return {
      endAfterMs: values.seconds === undefined && live ? Infinity : duration('seconds', values.seconds ?? '20'),
      everyMs: duration('every', values.every ?? '6'),
    }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`)
    process.exit(2)
  }
}

/**
 * @param {string} name
 * @param {string} text
 */
function duration(name, text) {
  const ms = Number(text) * 1000
  if (ms > 0 && ms < 2 ** 31) return ms
  throw new TypeError(`--${name} must be a number of seconds, not "${text}"`)
}
