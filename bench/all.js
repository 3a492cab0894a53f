// npm run bench:all: every benchmark, one after another. Its options are passed to each of them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { busyExitCode } from './report.js'

/** Run the short ones first, so that a problem shows up early. */
const programs = [
  'bench',
  'stores',
  'shards',
  'kubernetes',
  'service',
  'page-view',
  'attacks',
  'multicluster',
  'cluster',
]

/** @type {string[]} */
const lines = []
for (const program of programs) {
  console.log(`\n=== ${program}`)
  // By then the processes of the previous benchmark have ended, so they do not make the machine look busy.
  if (lines.length > 0) await sleep(5_000)
  const startedMs = performance.now()
  const args = [join(import.meta.dirname, `${program}.js`), ...process.argv.slice(2)]
  const [code] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit')
  // The results so far were measured on a quiet machine, so keep them.
  if (code === busyExitCode) process.exit(code)
  const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1)
  lines.push(`${program.padEnd(14)}${minutes.padStart(6)} min  ${code === 0 ? 'done' : `exit code ${code}`}`)
  if (code !== 0) process.exitCode = 1
}
console.log(`\n${lines.join('\n')}`)
