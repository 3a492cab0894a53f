import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import CountReporter from './scripts/count-reporter.ts'

// Started last, they would keep one core busy while the others idle.
const long = /simulat|chaos|mutant/

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return [...sorted.filter((file) => long.test(file.moduleId)), ...sorted.filter((file) => !long.test(file.moduleId))]
  }
}

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**', '**/.mutants/**'],
    // Says at the end which suites found no server to run against.
    globalSetup: ['test/servers/report.ts'],
    pool: 'threads',
    // Each worker loads the library once for all of its files: no module of it keeps state.
    isolate: false,
    maxWorkers: Math.max(2, availableParallelism()),
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 120_000,
    teardownTimeout: 10_000,
    // An unhandled rejection or exception fails the run, also when every test passed.
    dangerouslyIgnoreUnhandledErrors: false,
    reporters: ['default', new CountReporter()],
  },
})
