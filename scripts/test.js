/**
 * node scripts/test.js everyday | all [--rest] [options of vitest]
 *
 * Runs tiers of tests, one after another. `vitest.config.ts` defines the tiers.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, statfsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

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
const args = [vitest, 'run', ...tiers.flatMap((tier) => ['--project', tier]), ...more]
const { status } = spawnSync(process.execPath, args, {
  stdio: 'inherit',
  env: { TENURE_SERVER_DATA: serverData(), ...process.env, TENURE_TESTS: scope },
})
process.exitCode = status ?? 1

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
