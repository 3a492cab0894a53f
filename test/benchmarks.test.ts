import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withFigures as withReplicas } from '../bench/cluster-page.js'
import { withFigures as withClusters } from '../bench/multicluster-page.js'
import { pageFile } from '../bench/page.js'
import { pictureFile, pictureOf, withFigures } from '../bench/stores-page.js'

const clusters = JSON.parse(readFileSync(join(import.meta.dirname, '../bench/multicluster-results.json'), 'utf8'))
const results = JSON.parse(readFileSync(join(import.meta.dirname, '../bench/stores-results.json'), 'utf8'))

test('docs/explanation/benchmarks.md and its picture show the results of a full run of bench:stores', () => {
  expect(results.quick).toBe(false)
  const page = readFileSync(pageFile, 'utf8')
  expect(page).toBe(withFigures(page, results))
  expect(readFileSync(pictureFile, 'utf8')).toBe(pictureOf(results))
})

test('a changed figure changes the page and the picture', () => {
  const [table] = results.tables
  const [first, ...others] = table.rows
  const slower = { ...results, tables: [{ ...table, rows: [{ ...first, handOverMs: 4_321 }, ...others] }] }
  const page = readFileSync(pageFile, 'utf8')
  expect(withFigures(page, slower)).toContain('| 4.32 s, p99 ')
  expect(pictureOf(slower)).toContain('>4.32 s</text>')
})

test('docs/explanation/benchmarks.md shows the results of a full run of bench:multicluster', () => {
  expect(clusters.quick).toBe(false)
  const page = readFileSync(pageFile, 'utf8')
  expect(page).toBe(withClusters(page, clusters))
  const [first, ...others] = clusters.results
  expect(withClusters(page, { ...clusters, results: [{ ...first, value: 4_321 }, ...others] })).toContain('| 4321 ')
})

const replicasFile = join(import.meta.dirname, '../bench/cluster-results.json')

test.skipIf(!existsSync(replicasFile))(
  'docs/explanation/benchmarks.md shows the results of a full run of bench:cluster',
  () => {
    const replicas = JSON.parse(readFileSync(replicasFile, 'utf8'))
    expect(replicas.quick).toBe(false)
    const page = readFileSync(pageFile, 'utf8')
    expect(page).toBe(withReplicas(page, replicas))
  },
)

test('the figures and sizes of replicas are written to their own section of the page', () => {
  const page = readFileSync(pageFile, 'utf8')
  const figure = { name: 'clean stop', value: 98, unit: 'ms', goal: 500, passed: true, detail: '' }
  const machine = { cpu: 'c', cores: 2, node: 'v', load: 1 }
  const tables = [{ name: 'sizes', rows: [{ groups: 10, 'failover ms': 2_900 }] }]
  const written = withReplicas(page, { machine, results: [figure], tables })
  expect(written).toContain('| clean stop | 98.0 ms | below 500 | |')
  expect(written).toContain('| groups | failover ms |\n|---|---|\n| 10 | 2900 |')
  expect(written.split('<!-- figures of bench:cluster -->')[0]).toBe(page.split('<!-- figures of bench:cluster -->')[0])
})
