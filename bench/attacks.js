// npm run bench:attacks: the latency of honest clients while another client attacks the service. Options: `--only NAME`
// runs one attack, `--seconds N` sets its duration, `--heap MB` sets the heap of each process of the service.
// `--replicas` attacks the active replica of three on etcd, then a follower. `--on active` or `--on follower` attacks
// only that one. "starved" is the fraction of the time during which a process of the service waited for a CPU.
import { parseArgs } from 'node:util'
import { load } from '../scripts/load.js'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    seconds: { type: 'string', default: '12' },
    heap: { type: 'string' },
    quick: { type: 'boolean', default: false },
    // Accepted because bench:all passes it to every benchmark. It has no effect here: results are only printed.
    'dry-run': { type: 'boolean', default: false },
    program: { type: 'string' },
    replicas: { type: 'boolean', default: false },
    on: { type: 'string', multiple: true, default: ['active', 'follower'] },
  },
})
/** @typedef {import('../packages/service/test/flood-scene.ts').Target} Target */
const scene = /** @type {typeof import('../packages/service/test/flood-scene.ts')} */ (
  await load('packages/service/test/flood-scene.ts')
)
const bars = { p99Ms: 250, rssMb: 400 }
const columns = [
  'attack',
  'renews through',
  'p50 ms',
  'p99 ms',
  'max ms',
  'leases lost',
  'peak RSS MB',
  'bare max ms',
  'not 200',
  'starved %',
  'load',
  'bars',
]
const leftColumns = 2
const widths = columns.map((column, index) => (index === 0 ? 26 : Math.max(column.length, 7)))
const line = (/** @type {readonly (string | number)[]} */ cells) =>
  console.log(
    cells
      .map((cell, index) => String(cell)[index < leftColumns ? 'padEnd' : 'padStart'](widths[index] ?? 0))
      .join('  '),
  )
let missed = 0

/** @param {{ readonly store: string, readonly target: Target }} [replicas] */
async function run(replicas) {
  line(columns)
  for (const attack of [/** @type {const} */ ('none'), ...scene.attacks]) {
    if (values.only && !values.only.includes(attack)) continue
    const seen = await scene.measure(attack, {
      forMs: values.quick ? 1_000 : Number(values.seconds) * 1_000,
      ...(values.heap !== undefined && { heapMb: Number(values.heap) }),
      ...(values.program !== undefined && { program: values.program }),
      ...(replicas && { replicas: { ...replicas, store: `${replicas.store}-${attack.replaceAll(/\W+/g, '-')}` } }),
    })
    for (const honest of seen.honest) show(seen, honest)
    if (process.env['ATTACK_ANSWERS']) console.log('   ', JSON.stringify(seen.answered))
  }
}

/**
 * @param {import('../packages/service/test/flood-scene.ts').Measured} seen
 * @param {import('../packages/service/test/flood-scene.ts').Honest} honest
 */
function show(seen, honest) {
  const others = Object.entries(honest.statuses).filter(([status]) => status !== '200')
  const isMet =
    seen.survived &&
    honest.p99Ms < bars.p99Ms &&
    honest.leasesLost === 0 &&
    (seen.peakRssMb ?? 0) < bars.rssMb &&
    others.length === 0
  if (!isMet) missed += 1
  line([
    seen.attack,
    honest.through,
    honest.p50Ms.toFixed(1),
    honest.p99Ms.toFixed(1),
    honest.maxMs.toFixed(1),
    honest.leasesLost,
    seen.survived ? (seen.peakRssMb?.toFixed(0) ?? '-') : 'died',
    honest.bareMaxMs.toFixed(1),
    others.map(([status, count]) => `${count}x${status}`).join(' ') || 0,
    (100 * seen.starved).toFixed(0),
    seen.load.toFixed(1),
    isMet ? 'met' : 'MISSED',
  ])
}

if (values.replicas) {
  const { start } = /** @type {typeof import('../test/servers/server.ts')} */ (await load('test/servers/server.ts'))
  const { etcd } = /** @type {typeof import('../test/servers/etcd.ts')} */ (await load('test/servers/etcd.ts'))
  const database = await start(etcd)
  try {
    for (const target of values.on) {
      console.log(`\nThree replicas on etcd, attacked: the ${target === 'active' ? 'active one' : 'first follower'}`)
      const store = `etcd://${new URL(database.url).host}/${target}`
      await run({ store, target: /** @type {Target} */ (target) })
    }
  } finally {
    await database.stop()
  }
} else await run()
process.exitCode = missed > 0 && !values.quick ? 1 : 0
