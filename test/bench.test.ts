import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const bench = join(import.meta.dirname, '../bench/bench.js')

test('the benchmark runs, and writes down each figure with its goal', { timeout: 90_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'results.json')
  const { stdout } = await promisify(execFile)(process.execPath, [bench, '--quick', '--results', file])
  const { quick, results } = JSON.parse(readFileSync(file, 'utf8'))
  expect(quick).toBe(true)
  expect(results).toHaveLength(14)
  for (const { name, value, goal, passed } of results) {
    expect(value, name).toSatisfy(Number.isFinite)
    expect(passed, name).toBe(value < goal)
    expect(stdout).toMatch(
      new RegExp(`^${passed ? 'pass' : 'MISS'}  ${name.replaceAll(/[()]/g, '\\$&')} .* goal < ${goal} `, 'm'),
    )
  }
})
