// npm run servers [-- NAME ...]: installs the programs that the tests need and that are missing on this machine.
import { load } from './load.js'

const { installMissing } = /** @type {typeof import('../test/servers/install-programs.ts')} */ (
  await load('test/servers/install-programs.ts')
)
const missing = await installMissing((line) => console.log(line), process.argv.slice(2))
if (missing > 0) {
  console.log('Tests that need a missing program are skipped; with CI=true they fail.')
  if (process.env.CI === 'true') process.exitCode = 1
}
