/**
 * node scripts/test.js everyday | all [--rest] [options of vitest]
 *
 * Runs groups of tests; `vitest.config.ts` says what is in each, and runs them one after another.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const everyday = ['quick', 'processes']
const rest = ['long', 'programs', 'proof']

const [scope = '', ...more] = process.argv.slice(2)
if (scope !== 'everyday' && scope !== 'all') throw new Error(`There are no tests "${scope}".`)
// For who has just run the everyday tests.
const isRest = more[0] === '--rest'
if (isRest) more.shift()
const groups = scope === 'everyday' ? [...everyday, 'everyday'] : isRest ? rest : [...everyday, ...rest]
const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
const args = [vitest, 'run', ...groups.flatMap((group) => ['--project', group]), ...more]
const { status } = spawnSync(process.execPath, args, {
  stdio: 'inherit',
  env: { ...process.env, TENURE_TESTS: scope },
})
process.exitCode = status ?? 1
