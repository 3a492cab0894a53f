/**
 * Runs all explorations in `explorations.js` and writes the results to their page: npm run explore [-- --by "npm test"]
 * [-- --only "two electors that poll"]. A violation ends the run and prints the shortest trace to it.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { explore } from '@tenure/testing/simulation'
import { explorations, rowOf } from './explorations.js'

const { values } = parseArgs({ options: { by: { type: 'string' }, only: { type: 'string' } } })
const page = join(import.meta.dirname, '../docs/explanation/exploration.md')
for (const exploration of explorations) {
  if (values.by !== undefined && values.by !== exploration.by) continue
  if (values.only !== undefined && values.only !== exploration.name) continue
  const report = await explore(exploration.options)
  if (!report.ok) {
    console.error(`${exploration.name}: ${String(report)}`)
    process.exit(1)
  }
  const row = rowOf(exploration, report)
  console.log(row)
  write(exploration.name, row)
}

/**
 * Replaces the row with this name, or adds it to the first table.
 *
 * @param {string} name
 * @param {string} row
 */
function write(name, row) {
  const lines = readFileSync(page, 'utf8').split('\n')
  const at = lines.findIndex((line) => line.startsWith(`| ${name} |`))
  const end = lines.findIndex((line, index) => line.startsWith('|') && lines[index + 1] === '')
  if (at >= 0) lines[at] = row
  else lines.splice(end + 1, 0, row)
  writeFileSync(page, lines.join('\n'))
}
