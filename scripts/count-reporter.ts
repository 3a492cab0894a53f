import type { Reporter, TestModule } from 'vitest/node'

/** Ends the run's output with its count, alone on a line, so that people and machines can read it there. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    for (const module of modules) {
      // A file that does not even load, or a hook that fails, has no failed test of its own.
      const before = count.failed
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') count.passed++
        else if (state === 'failed') count.failed++
        else count.skipped++
      }
      if (!module.ok() && count.failed === before) count.failed++
    }
    const line = `${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`
    // Other reporters, and vitest itself, may still print; nothing prints after this.
    process.once('exit', () => console.log(line))
  }
}
