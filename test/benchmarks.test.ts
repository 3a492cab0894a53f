import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  guardedName,
  handoverPicture,
  handoverPictureFile,
  handoverTable,
  readmeFile,
  withHandoverPicture,
} from '../bench/handover-picture.js'
import { machineLine, pageFile } from '../bench/benchmarks-page.js'
import { commands, readResults, withResults } from '../bench/published-pages.js'
import { pictureFile, pictureOf } from '../bench/stores-page.js'

const page = readFileSync(pageFile, 'utf8')

test.each(Object.keys(commands))('docs/explanation/benchmarks.md shows the results of a full run of %s', (name) => {
  const results = readResults(name)
  if (results) expect(results.quick).toBe(false)
  expect(page).toBe(withResults(page, name, results))
})

test('the picture in docs/explanation/benchmarks.md shows the results of bench:stores', () => {
  const results = JSON.parse(JSON.stringify(readResults('stores')))
  expect(readFileSync(pictureFile, 'utf8')).toBe(pictureOf(results))
})

test('a changed figure changes the page and the picture', () => {
  const results = JSON.parse(JSON.stringify(readResults('stores')))
  results.tables[0].rows[0].handOverMs = 4_321
  expect(withResults(page, 'stores', results)).toContain('| 4.32 s, p99 ')
  expect(pictureOf(results)).toContain('>4.32 s</text>')
})

const machine = {
  cpu: 'c',
  cores: 2,
  node: 'v',
  load: 1,
  loadBefore: 0.5,
  freeShare: 0.98,
  bareLoopMs: 1,
  commit: 'abc',
}

test('the figures and tables of a benchmark are written to their own section of the page', () => {
  const figure = { name: 'clean stop', value: 98, unit: 'ms', goal: 500, passed: true, detail: '' }
  const tables = [{ name: 'sizes', rows: [{ groups: 10, 'failover ms': 2_900 }] }]
  const written = withResults(page, 'cluster', { quick: false, machine, results: [figure], tables })
  expect(written).toContain('| clean stop | 98.0 ms | below 500 | |')
  expect(written).toContain('| groups | failover ms |\n|---|---|\n| 10 | 2900 |')
  expect(written.split('<!-- figures of bench:cluster -->')[0]).toBe(page.split('<!-- figures of bench:cluster -->')[0])
})

test('each table names the machine, its load before and after, how quiet it was, and the commit', () => {
  expect(machineLine(machine)).toBe(
    'On 2 cores (c), Node.js v, commit abc, load 0.500 before and 1.00 at the end; a bare loop on every core got 98 % of them before (1.00 ms for a million turns)',
  )
})

function handovers(server: string, others: string[]) {
  const rows = ['Tenure', guardedName, ...others].map((contender, index) => ({
    server,
    contender,
    failOverMs: index === 1 ? 31 : 5_000 + index,
    failOverP99Ms: 6_000,
    handOverMs: 7,
    handOverP99Ms: 9,
  }))
  return { quick: false, machine, settings: { leaseMs: 5_000 }, results: [], tables: [{ name: handoverTable, rows }] }
}

test('the picture in the README shows crash and handover of every contender that the benchmarks have measured', () => {
  const stores = handovers('Redis', ['redlock'])
  const drawn = handoverPicture(stores, handovers('Kubernetes', ['client-go'])) ?? ''
  for (const label of ['Redis: Tenure', 'Kubernetes: Tenure', 'Redis: redlock', 'Kubernetes: client-go']) {
    expect(drawn.split(`>${label}</text>`)).toHaveLength(3)
  }
  expect(drawn).toContain('>31.0 ms, p99 6 s</text>')
  expect(drawn).toContain('>5 s, p99 6 s</text>')
  expect(drawn).toContain('>7.00 ms, p99 9.00 ms</text>')
  expect(drawn).toContain('prefers-color-scheme: dark')
  const withoutKubernetes = handoverPicture(stores, undefined) ?? ''
  expect(withoutKubernetes).toContain('>Redis: redlock</text>')
  expect(withoutKubernetes).not.toContain('Kubernetes')
  expect(handoverPicture(undefined, handovers('Kubernetes', ['client-go']))).toBeUndefined()
  const [table] = stores.tables
  const unguarded = { ...stores, tables: [{ name: handoverTable, rows: table?.rows.slice(0, 1) ?? [] }] }
  expect(handoverPicture(unguarded, handovers('Kubernetes', []))).toBeUndefined()
})

test('the README shows the picture once there is one', () => {
  const drawn = handoverPicture(readResults('stores'), readResults('kubernetes'))
  const readme = readFileSync(readmeFile, 'utf8')
  expect(existsSync(handoverPictureFile)).toBe(drawn !== undefined)
  if (drawn !== undefined) expect(readFileSync(handoverPictureFile, 'utf8')).toBe(drawn)
  expect(readme.includes('handover.svg')).toBe(drawn !== undefined)
  expect(withHandoverPicture(readme)).toContain('](docs/explanation/handover.svg)](docs/explanation/benchmarks.md)')
})
