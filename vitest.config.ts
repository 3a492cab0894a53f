import { availableParallelism } from 'node:os'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import CountReporter from './scripts/count-reporter.ts'
import { whatTheFullRunAdds } from './scripts/full-run.ts'

const cores = Math.max(2, availableParallelism())

// Started last, they would keep one core busy while the others idle.
const long = /attacks|bench|chaos|crash|explore|failover|faults|fleet|mutants|run\.test|run.supervision|simulate/

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return [...sorted.filter((file) => long.test(file.moduleId)), ...sorted.filter((file) => !long.test(file.moduleId))]
  }
}

const never = ['**/node_modules/**', '**/dist/**']
const testsIn = (folder: string) => [`packages/*/test/${folder}/**/*.test.ts`, `test/${folder}/**/*.test.ts`]

/** A group of tests. Groups run one after another: what fills all cores never runs beside what is about deadlines. */
function group(name: string, groupOrder: number, test: NonNullable<TestProjectInlineConfiguration['test']>) {
  return { extends: true as const, test: { name, sequence: { groupOrder }, ...test } }
}

export default defineConfig({
  test: {
    exclude: never,
    pool: 'threads',
    // Each worker loads the library once for all of its files: no module of it keeps state.
    isolate: false,
    maxWorkers: cores,
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 120_000,
    teardownTimeout: 10_000,
    // What is waited for may come late on a busy machine.
    expect: { poll: { timeout: 10_000 } },
    // The library reports on standard error what goes wrong, and most tests make something go wrong.
    onConsoleLog: (text) => !text.startsWith('tenure: '),
    // An unhandled rejection or exception fails the run, also when every test passed.
    dangerouslyIgnoreUnhandledErrors: false,
    reporters: [
      'default',
      new CountReporter(process.env['TENURE_TESTS'] === 'everyday' ? whatTheFullRunAdds : undefined),
    ],
    projects: [
      group('quick', 1, {
        include: testsIn('**'),
        exclude: [...never, ...['processes', 'programs', 'proof'].flatMap(testsIn)],
      }),
      // Their tests wait more than they work.
      group('processes', 2, {
        include: testsIn('processes'),
        exclude: [...never, ...testsIn('processes/long')],
        maxWorkers: cores + 2,
        testTimeout: 60_000,
      }),
      group('long', 3, { include: testsIn('processes/long'), maxWorkers: cores + 2, testTimeout: 90_000 }),
      group('programs', 4, {
        include: testsIn('programs'),
        globalSetup: ['test/servers/shared-cluster.ts'],
        maxWorkers: cores + 1,
        testTimeout: 60_000,
      }),
      group('proof', 5, { include: testsIn('proof'), exclude: [...never, ...testsIn('proof/everyday')] }),
      // A share of `proof`, for those who do not run all of it.
      group('everyday', 6, { include: testsIn('proof/everyday') }),
    ],
  },
})
