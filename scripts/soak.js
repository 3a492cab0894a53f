/**
 * Simulates fleets for the given number of hours: npm run soak -- --hours 5000 [--seed 1]. A violation ends the run and
 * prints the seed that reproduces it.
 */
import { parseArgs } from 'node:util'
import { simulate } from '@tenure/testing/simulation'

const usage = `npm run soak -- [--hours N] [--seed N]

  --hours N   fleet-hours to simulate, each from a seed of its own (default: 100)
  --seed N    the first seed (default: a random one)`

const { hours, firstSeed } = readOptions()
console.log(`Simulating ${fleetHours(hours)} from seed ${firstSeed}.`)
/** @type {Record<string, number>} */
const totals = {}
for (let done = 0; done < hours; done += 1) {
  const report = await simulate({ seed: firstSeed + done })
  if (!report.ok) {
    console.error(String(report))
    process.exit(1)
  }
  for (const [name, count] of Object.entries(report.counts)) totals[name] = (totals[name] ?? 0) + count
  if (process.stdout.isTTY) process.stdout.write(`\r${done + 1} of ${fleetHours(hours)}`)
  else if ((done + 1) % 100 === 0) console.log(`${done + 1} of ${fleetHours(hours)}`)
}
console.log(`\nNo invariant was violated. Seen: ${JSON.stringify(totals)}`)

/** @param {number} count */
function fleetHours(count) {
  return count === 1 ? '1 fleet-hour' : `${count} fleet-hours`
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: { hours: { type: 'string' }, seed: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    const hours = Number(values.hours ?? 100)
    const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
    if (!Number.isSafeInteger(hours) || hours < 1) throw new TypeError('--hours must be a whole number from 1 on')
    if (!Number.isSafeInteger(firstSeed)) throw new TypeError('--seed must be a whole number')
    return { hours, firstSeed }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`)
    process.exit(2)
  }
}
