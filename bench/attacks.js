// npm run bench:attacks: the latency of an honest client while another client attacks the service. Options: `--only
// NAME` runs one attack, `--seconds N` sets its duration, `--heap MB` sets the heap of the service.
import { parseArgs } from 'node:util'
import { load } from '../scripts/load.js'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    seconds: { type: 'string', default: '12' },
    heap: { type: 'string' },
    quick: { type: 'boolean', default: false },
    program: { type: 'string' },
  },
})
const scene = /** @type {typeof import('../packages/service/test/flood-scene.ts')} */ (
  await load('packages/service/test/flood-scene.ts')
)
const bars = { p99Ms: 250, rssMb: 400 }
const columns = ['attack', 'p50 ms', 'p99 ms', 'max ms', 'leases lost', 'peak RSS MB', 'bare max ms', 'not 200', 'bars']
const widths = columns.map((column, index) => (index === 0 ? 22 : Math.max(column.length, 8)))
const line = (/** @type {readonly (string | number)[]} */ cells) =>
  console.log(
    cells
      .map((cell, index) => (index === 0 ? String(cell).padEnd(22) : String(cell).padStart(widths[index] ?? 0)))
      .join('  '),
  )

line(columns)
let missed = 0
for (const attack of [/** @type {const} */ ('none'), ...scene.attacks]) {
  if (values.only && !values.only.includes(attack)) continue
  const forMs = values.quick ? 1_000 : Number(values.seconds) * 1_000
  const seen = await scene.measure(attack, {
    forMs,
    ...(values.heap !== undefined && { heapMb: Number(values.heap) }),
    ...(values.program !== undefined && { program: values.program }),
  })
  const others = Object.entries(seen.statuses).filter(([status]) => status !== '200')
  const isMet =
    seen.survived &&
    seen.p99Ms < bars.p99Ms &&
    seen.leasesLost === 0 &&
    (seen.peakRssMb ?? 0) < bars.rssMb &&
    others.length === 0
  if (!isMet) missed += 1
  line([
    attack,
    seen.p50Ms.toFixed(1),
    seen.p99Ms.toFixed(1),
    seen.maxMs.toFixed(1),
    seen.leasesLost,
    seen.survived ? (seen.peakRssMb?.toFixed(0) ?? '-') : 'died',
    seen.bareMaxMs.toFixed(1),
    others.map(([status, count]) => `${count}x${status}`).join(' ') || 0,
    isMet ? 'met' : 'MISSED',
  ])
  if (process.env['ATTACK_ANSWERS']) console.log('   ', JSON.stringify(seen.answered))
}
process.exitCode = missed > 0 && !values.quick ? 1 : 0
