/**
 * Checks a session whose processes only hand over to their children, while process ids wrap around again and again. Run
 * it in its own PID namespace, with the path of session.ts as a module. It prints how many times the session was
 * mistaken for gone.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'

const { isGone, sessionOf } = await import(process.argv[2] ?? '')
const perl = (/** @type {string} */ script) =>
  spawn('perl', ['-MTime::HiRes=usleep', '-e', script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })

// These processes fill the ids between the lowest and the highest, so that listing all ids takes a while.
const others = perl('$| = 1; for (1 .. 200) { fork or do { sleep 60; exit } } print "ready"; sleep 60')
await once(others.stdout, 'data')
const chain = perl('for (1 .. 1_000_000) { exit if fork; usleep(50) }')
const session = sessionOf(chain.pid)
await once(chain, 'exit')

const highest = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'))
let gone = 0
for (let look = 0; look < 300; look++) {
  writeFileSync('/proc/sys/kernel/ns_last_pid', String(highest - 1 - (look % 5)))
  if (isGone(session)) gone += 1
  // All looks of one turn of the event loop share their lists.
  await new Promise(setImmediate)
}
// All other processes end with the namespace.
process.stdout.write(JSON.stringify({ gone, isThere: !isGone(session) }), () => process.exit())
