import { availableParallelism } from 'node:os'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import CountReporter from './scripts/count-reporter.ts'
import { whatTheFullRunAdds } from './scripts/full-run.ts'
import { sourcesByName } from './scripts/source-paths.js'

const cores = Math.max(2, availableParallelism())

// If these were started last, they would keep one core busy while the others idle.
const long = /attacks|bench|chaos|crash|explore|failover|faults|fleet|mutants|run\/run\.|supervision|simulate/

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return [...sorted.filter((file) => long.test(file.moduleId)), ...sorted.filter((file) => !long.test(file.moduleId))]
  }
}

const never = ['**/node_modules/**', '**/dist/**']
/** The tests of a tier: `postgres.server.test.ts` is in the tier `server`, and `record.test.ts` is in none of these. */
const testsOf = (tier: string) => [`packages/*/test/**/*.${tier}.test.ts`, `test/**/*.${tier}.test.ts`]
const slowTiers = ['process', 'slow', 'server', 'proof', 'proof-sample']

/**
 * A tier of tests. Tiers run one after another, so that tests that use all cores never run at the same time as tests of
 * deadlines.
 */
function tier(name: string, groupOrder: number, test: NonNullable<TestProjectInlineConfiguration['test']>) {
  return { extends: true as const, test: { name, sequence: { groupOrder }, ...test } }
}

/** Tests in this process share one copy of the library, whether they import one of its files or the package. */
const alias = Object.entries(sourcesByName(['tenure', 'testing'])).map(([name, replacement]) => ({
  find: new RegExp(`^${name}$`),
  replacement,
}))

export default defineConfig({
  resolve: { alias },
  test: {
    exclude: never,
    pool: 'threads',
    // Each worker loads the library once for all of its files, because none of its modules keeps state.
    isolate: false,
    maxWorkers: cores,
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 120_000,
    teardownTimeout: 10_000,
    // On a busy machine, an event may arrive late.
    expect: { poll: { timeout: 10_000 } },
    // The library reports problems on standard error, and most tests cause problems.
    onConsoleLog: (text) => !text.startsWith('tenure: '),
    // An unhandled rejection or exception fails the run even if every test passed.
    dangerouslyIgnoreUnhandledErrors: false,
    reporters: [
      'default',
      new CountReporter(process.env['TENURE_TESTS'] === 'everyday' ? whatTheFullRunAdds : undefined),
    ],
    projects: [
      tier('quick', 1, {
        include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
        exclude: [...never, ...slowTiers.flatMap(testsOf)],
      }),
      // These tests spend more time waiting than working.
      tier('process', 2, { include: testsOf('process'), maxWorkers: cores + 2, testTimeout: 60_000 }),
      tier('slow', 3, { include: testsOf('slow'), maxWorkers: cores + 2, testTimeout: 90_000 }),
      tier('server', 4, {
        include: testsOf('server'),
        globalSetup: ['test/servers/shared-cluster.ts'],
        maxWorkers: cores + 1,
        testTimeout: 60_000,
      }),
      tier('proof', 5, { include: testsOf('proof') }),
      // A part of `proof`, for `npm test`.
      tier('proof-sample', 6, { include: testsOf('proof-sample') }),
    ],
  },
})
