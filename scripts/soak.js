/**
 * Simulates fleets for as long as it is told to: npm run soak -- --hours 5000 [--seed 1]. A violation ends it with the
 * seed that reproduces it.
 */
import { parseArgs } from 'node:util'
import { simulate } from 'tenure/simulation'

const { values } = parseArgs({ options: { hours: { type: 'string' }, seed: { type: 'string' } } })
const hours = Number(values.hours ?? 100)
const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
if (!(hours >= 1) || !Number.isSafeInteger(firstSeed)) {
  console.error('Usage: npm run soak -- --hours N [--seed N]')
  process.exit(2)
}

console.log(`Simulating ${hours} fleet-hours from seed ${firstSeed}.`)
/** @type {Record<string, number>} */
const totals = {}
for (let done = 0; done < hours; done += 1) {
  const report = await simulate({ seed: firstSeed + done })
  if (!report.ok) {
    console.error(String(report))
    process.exit(1)
  }
  for (const [name, count] of Object.entries(report.counts)) totals[name] = (totals[name] ?? 0) + count
  if (process.stdout.isTTY) process.stdout.write(`\r${done + 1} of ${hours} fleet-hours`)
  else if ((done + 1) % 100 === 0) console.log(`${done + 1} of ${hours} fleet-hours`)
}
console.log(`\nNo invariant was violated. Seen: ${JSON.stringify(totals)}`)
