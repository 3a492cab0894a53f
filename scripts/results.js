/**
 * node scripts/results.js [SUITE...]
 *
 * Runs the suites that inject faults into real processes and servers, each alone, and writes what happened to
 * docs/explanation/results.json and the page beside it. With names, only these suites run, and the others keep their
 * last results. A suite that fails keeps its place on the page, with what it found.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { resultsFile, resultsPage, resultsPageFile } from './results-page.js'

/** @typedef {import('./results-page.js').SuiteResult} SuiteResult */

const root = fileURLToPath(new URL('..', import.meta.url))
const vitest = join(root, 'node_modules/vitest/vitest.mjs')

/** The suites whose runs `test/chaos/fault-record.ts` records. */
const suites = {
  'file-store': { tier: 'slow', path: 'test/chaos/file-store.slow.test.ts' },
  redis: { tier: 'server', path: 'test/chaos/redis.server.test.ts' },
  postgres: { tier: 'server', path: 'test/chaos/postgres.server.test.ts' },
  etcd: { tier: 'server', path: 'test/chaos/etcd.server.test.ts' },
  dynamodb: { tier: 'server', path: 'test/chaos/dynamodb.server.test.ts' },
  s3: { tier: 'server', path: 'test/chaos/s3.server.test.ts' },
  gcs: { tier: 'server', path: 'test/chaos/gcs.server.test.ts' },
}

/**
 * @param {{ tier: string, path: string }} suite
 * @returns {SuiteResult}
 */
function runSuite({ tier, path }) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-results-'))
  try {
    const record = join(folder, 'runs')
    const outcome = join(folder, 'outcome.json')
    const startedAt = new Date()
    const [load = 0] = loadavg()
    spawnSync(process.execPath, [vitest, 'run', '--project', tier, path], {
      cwd: root,
      stdio: 'inherit',
      env: { ...process.env, CI: 'true', TENURE_FAULT_RECORD: record, TENURE_TEST_OUTCOME: outcome },
    })
    const { count, failed } = JSON.parse(readFileSync(outcome, 'utf8'))
    const lines = existsSync(record) ? readFileSync(record, 'utf8').trim().split('\n') : []
    return {
      path,
      startedAt: startedAt.toISOString(),
      tookS: Math.round((Date.now() - startedAt.getTime()) / 1_000),
      commit: commitOf(),
      node: process.version,
      cores: availableParallelism(),
      cpu: cpus()[0]?.model.trim() ?? 'unknown',
      loads: [round(load), round(loadavg()[0] ?? 0)],
      count,
      failed: failed.flatMap((/** @type {{ tests: string[] }} */ { tests }) => tests),
      runs: lines.map((line) => JSON.parse(line)),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The commit of the code, and whether files differ from it. The published results may differ. */
function commitOf() {
  /** @param {string[]} args */
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
  const changes = git('status', '--porcelain', '--', '.', ':!docs/explanation/results.*')
  return git('rev-parse', '--short', 'HEAD') + (changes === '' ? '' : ' with changes')
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !Object.hasOwn(suites, name))
if (unknown.length > 0)
  throw new Error(`Unknown suites: ${unknown.join(', ')}. Choose from ${Object.keys(suites).join(', ')}.`)
for (const [name, suite] of Object.entries(suites)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const result = runSuite(suite)
  /** @type {SuiteResult[]} */
  const former = existsSync(resultsFile) ? JSON.parse(readFileSync(resultsFile, 'utf8')) : []
  const others = former.filter(({ path }) => path !== result.path)
  const results = [...others, result].toSorted((a, b) => a.path.localeCompare(b.path, 'en'))
  writeFileSync(resultsFile, `${JSON.stringify(results, undefined, 2)}\n`)
  writeFileSync(resultsPageFile, resultsPage(results))
  execFileSync(process.execPath, [join(root, 'node_modules/oxfmt/bin/oxfmt'), resultsFile], { cwd: root })
}
