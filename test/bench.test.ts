import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { programs } from './servers/programs.ts'
import { describeWithPrograms } from './servers/suite.ts'

test('the benchmark runs, and writes down each figure with its goal', { timeout: 90_000 }, () => check('bench.js', 14))

describeWithPrograms([programs.etcd], 'the benchmark of the service', () => {
  test('runs, and writes down each figure with its goal', { timeout: 120_000 }, () => check('service.js', 7))
})

async function check(name: string, figures: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'results.json')
  const program = join(import.meta.dirname, '../bench', name)
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--quick', '--results', file])
  const { quick, results } = JSON.parse(readFileSync(file, 'utf8'))
  expect(quick).toBe(true)
  expect(results).toHaveLength(figures)
  for (const { name, value, goal, passed } of results) {
    expect(value, name).toSatisfy(Number.isFinite)
    expect(passed, name).toBe(value < goal)
    expect(stdout).toMatch(
      new RegExp(`^${passed ? 'pass' : 'MISS'}  ${name.replaceAll(/[()]/g, '\\$&')} .* goal < ${goal} `, 'm'),
    )
  }
}
