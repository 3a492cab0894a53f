import { storeMutations } from '../packages/testing/test/conformance/store-mutants.ts'
import { engineMutants } from '../packages/testing/test/simulation/engine-mutants.ts'
import { everydayFleetHours, everydayShare, fleetHours } from '../packages/testing/test/simulation/everyday-share.ts'
import { programs } from '../test/servers/programs.ts'
import { listFiles } from '../test/source-files.ts'

/** The last lines of `npm test`, which say what `npm run test:all` adds. */
export function whatTheFullRunAdds(): string[] {
  const tests = listFiles().filter((path) => path.endsWith('.test.ts'))
  const suitesOf = (tier: string) => tests.filter((path) => path.endsWith(`.${tier}.test.ts`)).length
  const proofs = [engineMutants, storeMutations]
  const mutants = proofs.flat().length
  const share = proofs.flatMap((list) => everydayShare<{ readonly name: string }>(list)).length
  const names = Object.values(programs).map(({ binary }) => binary)
  return [
    'These were the everyday tests. npm run test:all adds',
    `  ${suitesOf('server')} suites that need programs: ${names.join(', ')};`,
    `  ${suitesOf('slow')} slow suites with processes: chaos, crashes, stalls, floods, schedules, backups, and mutants of the command;`,
    `  ${mutants - share} of ${mutants} mutants of the engine and the stores;`,
    `  ${fleetHours - everydayFleetHours} of ${fleetHours} simulated fleet-hours.`,
  ]
}
