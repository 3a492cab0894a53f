import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { guardedName, handoverTable } from '../bench/handover-picture.js'
import { clusterPrograms } from './servers/cluster.ts'
import { programs } from './servers/programs.ts'
import { describeWithPrograms } from './servers/suite.ts'

test('npm run bench runs and writes each figure with its goal', { timeout: 90_000 }, () => check('bench.js', 23))

describeWithPrograms([programs.etcd], 'the benchmark of the service', () => {
  test('npm run bench:service runs and writes each figure with its goal', { timeout: 120_000 }, () =>
    check('service.js', 7),
  )
})

describeWithPrograms([programs.etcd], 'the benchmark of replicas', () => {
  test('npm run bench:cluster runs and writes each figure with its goal', { timeout: 180_000 }, async () => {
    const { results, tables } = await check('cluster.js', 9)
    expect(results.find(({ unit }: { unit: string }) => unit === 'writes')).toMatchObject({ value: 0 })
    const rowsOf = (table: string) => tables.find(({ name }: { name: string }) => name === table).rows
    expect(rowsOf('shares')).toHaveLength(4)
    expect(rowsOf('sizes')).toHaveLength(2)
  })
})

describeWithPrograms(
  [programs.consul, programs.etcd, programs.mariadb, programs.nats, programs.postgres, programs.redis],
  'the benchmark of the stores',
  () => {
    test('npm run bench:stores runs and writes each figure with its goal', { timeout: 300_000 }, async () => {
      const { tables } = await check('stores.js', 54)
      const { rows } = tables[0]
      for (const server of ['etcd', 'Consul', 'PostgreSQL', 'MariaDB', 'Redis', 'NATS']) {
        const contenders = rows.filter((row: { server: string }) => row.server === server)
        expect(contenders.slice(0, 2).map(({ contender }: { contender: string }) => contender)).toEqual([
          'Tenure',
          guardedName,
        ])
        expect(contenders.length, `Tenure and at least one other contender on ${server}`).toBeGreaterThan(2)
      }
      for (const { contender, failOverMs, handOverMs } of rows) {
        expect(Math.min(failOverMs, handOverMs), contender).toBeGreaterThan(0)
      }
    })
  },
)

describeWithPrograms([...clusterPrograms, programs.clientGo], 'the benchmark on Kubernetes', () => {
  test('npm run bench:kubernetes runs and writes each figure with its goal', { timeout: 300_000 }, async () => {
    const { tables } = await check('kubernetes.js', 18)
    const { rows } = tables.find(({ name }: { name: string }) => name === handoverTable)
    expect(rows.map(({ contender }: { contender: string }) => contender)).toEqual(['Tenure', guardedName, 'client-go'])
  })
})

describeWithPrograms([programs.chromium], 'the benchmark of the page', () => {
  test('npm run bench:page runs and writes each figure with its goal', { timeout: 120_000 }, () =>
    check('page-view.js', 6),
  )
})

describeWithPrograms(clusterPrograms, 'the benchmark of clusters', () => {
  test('npm run bench:multicluster runs and writes each figure with its goal', { timeout: 180_000 }, () =>
    check('multicluster.js', 10),
  )
})

async function check(name: string, figures: number) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'results.json')
  const program = join(import.meta.dirname, '../bench', name)
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--quick', '--results', file])
  const written = JSON.parse(readFileSync(file, 'utf8'))
  const { quick, results } = written
  expect(quick).toBe(true)
  expect(results).toHaveLength(figures)
  for (const { name, value, goal, atMost, passed } of results) {
    expect(value, name).toSatisfy(Number.isFinite)
    expect(passed, name).toBe(atMost ? value <= goal : value < goal)
    expect(stdout).toMatch(
      new RegExp(
        `^${passed ? 'pass' : 'MISS'}  ${name.replaceAll(/[()]/g, '\\$&')} .* goal ${atMost ? '<=' : '<'} ${goal} `,
        'm',
      ),
    )
  }
  return written
}
