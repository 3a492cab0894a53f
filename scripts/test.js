/**
 * node scripts/test.js everyday | all [--rest] [options of vitest]
 *
 * Runs tiers of tests, one after another. `vitest.config.ts` defines the tiers. A few files that failed beside others run
 * once more alone: `repeat-alone.js`.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { filesToRepeat, reportRepeated } from './repeat-alone.js'

/** @typedef {import('./count-reporter.ts').RunOutcome} RunOutcome */

const everyday = ['quick', 'process']
const rest = ['slow', 'server', 'proof']

const [scope = '', ...more] = process.argv.slice(2)
if (scope !== 'everyday' && scope !== 'all')
  throw new Error(`Unknown scope of tests "${scope}". Use "everyday" or "all".`)
// For a caller that has just run the everyday tests.
const isRest = more[0] === '--rest'
if (isRest) more.shift()
const tiers = scope === 'everyday' ? [...everyday, 'proof-sample'] : isRest ? rest : [...everyday, ...rest]
const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'tenure-run-'))
try {
  process.exitCode = run()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

function run() {
  const first = runVitest([...tiers.flatMap((tier) => ['--project', tier]), ...more])
  const repeated = first.outcome ? filesToRepeat(first.outcome) : []
  if (first.status === 0 || !first.outcome || repeated.length === 0) return first.status
  const alone = repeated.map(({ tier, path }) => {
    console.log(`\nFailed beside other tests, runs once more alone: ${path}`)
    return runVitest(['--project', tier, '--maxWorkers', '1', '--no-file-parallelism', path]).outcome
  })
  const { lines, isPassed } = reportRepeated(first.outcome, repeated, alone)
  console.log(lines.join('\n'))
  return isPassed ? 0 : first.status
}

/**
 * @param {readonly string[]} args
 * @returns {{ status: number, outcome: RunOutcome | undefined }} The outcome is undefined if the run did not end by itself.
 */
function runVitest(args) {
  const file = join(folder, 'outcome.json')
  rmSync(file, { force: true })
  const { status } = spawnSync(process.execPath, [vitest, 'run', ...args], {
    stdio: 'inherit',
    env: { TENURE_SERVER_DATA: serverData(), ...process.env, TENURE_TESTS: scope, TENURE_TEST_OUTCOME: file },
  })
  return { status: status ?? 1, outcome: readOutcome(file) }
}

/**
 * @param {string} file
 * @returns {RunOutcome | undefined}
 */
function readOutcome(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Where real servers keep their data: in memory, if there is enough. A disk that many machines share occasionally
 * stalls for seconds, and no test is about that. Undefined means the default folder for temporary files.
 */
function serverData() {
  const folder = '/dev/shm'
  try {
    accessSync(folder, constants.W_OK)
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize >= 4 * 2 ** 30 ? folder : undefined
  } catch {
    return undefined
  }
}
