import { storeMutations } from '../packages/tenure/test/conformance/store-mutants.ts'
import { engineMutants } from '../packages/tenure/test/simulation/engine-mutants.ts'
import { everydayFleetHours, everydayShare, fleetHours } from '../packages/tenure/test/simulation/share.ts'
import { programs } from '../test/servers/programs.ts'
import { listFiles } from '../test/source-files.ts'

/** The last lines of `npm test`: what `npm run test:all` adds. */
export function whatTheFullRunAdds(): string[] {
  const tests = listFiles().filter((path) => path.endsWith('.test.ts'))
  const suitesIn = (folder: RegExp) => tests.filter((path) => folder.test(path)).length
  const proofs = [engineMutants, storeMutations]
  const mutants = proofs.flat().length
  const share = proofs.flatMap((list) => everydayShare<{ readonly name: string }>(list)).length
  const names = Object.values(programs).map(({ binary }) => binary)
  return [
    'These were the everyday tests. npm run test:all adds',
    `  ${suitesIn(/\/programs\//)} suites that need programs: ${names.join(', ')};`,
    `  ${suitesIn(/\/processes\/long\//)} long suites with processes: chaos, crashes, stalls, floods, schedules, backups, and mutants of the command;`,
    `  ${mutants - share} of ${mutants} mutants of the engine and the stores;`,
    `  ${fleetHours - everydayFleetHours} of ${fleetHours} simulated fleet-hours.`,
  ]
}
