import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { formatCount } from './repeat-alone.js'
import { root } from '../test/source-files.ts'
import { missingServersVariable } from '../test/servers/report-missing.ts'

/** The environment variable with the file to which a run writes its outcome. */
const outcomeVariable = 'TENURE_TEST_OUTCOME'

/** The outcome of a run, for `scripts/test.js`. */
export interface RunOutcome {
  readonly count: Count
  /** Errors outside tests, which no file can be blamed for. */
  readonly unhandledErrors: number
  readonly failed: readonly FailedFile[]
}

/** A file with a failed test, or one that did not load. */
export interface FailedFile {
  readonly tier: string
  /** Relative to the root of the repository. */
  readonly path: string
  readonly tests: readonly string[]
  readonly count: Count
}

export interface Count {
  passed: number
  failed: number
  skipped: number
}

/**
 * Ends the output of a run with a list of what was not tested and why, the lines that the caller adds, and the count.
 * The count is alone on the last line, so that it is easy to find.
 */
export default class CountReporter implements Reporter {
  readonly #closing: () => readonly string[]
  #folder: string | undefined

  constructor(closing: () => readonly string[] = () => []) {
    this.#closing = closing
  }

  onInit(): void {
    this.#folder = mkdtempSync(join(tmpdir(), 'tenure-report-'))
    const file = join(this.#folder, 'missing-servers')
    writeFileSync(file, '')
    // Worker processes inherit this variable.
    process.env[missingServersVariable] = file
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const outcome = outcomeOf(modules, unhandledErrors)
    const file = process.env[outcomeVariable]
    if (file) writeFileSync(file, JSON.stringify(outcome))
    const lines = [...this.#untested(), ...this.#closing(), formatCount(outcome.count)]
    // Other reporters, and Vitest itself, may still print. Nothing prints after this.
    process.once('exit', () => {
      console.log(lines.join('\n'))
      if (this.#folder) rmSync(this.#folder, { recursive: true, force: true })
    })
  }

  #untested(): string[] {
    const noted = this.#folder ? readFileSync(join(this.#folder, 'missing-servers'), 'utf8') : ''
    const lines = [...new Set(noted.split('\n').filter(Boolean))].sort().map((line) => `  ${line}`)
    return lines.length > 0 ? ['Not tested here:', ...lines] : []
  }
}

function outcomeOf(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): RunOutcome {
  const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
  const failed: FailedFile[] = []
  for (const module of modules) {
    const own = countOf(module)
    for (const state of ['passed', 'failed', 'skipped'] as const) count[state] += own[state]
    if (own.failed === 0) continue
    const tests = [...module.children.allTests('failed')].map(({ fullName }) => fullName)
    failed.push({ tier: module.project.name, path: relative(root, module.moduleId), tests, count: own })
  }
  return { count, unhandledErrors: unhandledErrors.length, failed }
}

function countOf(module: TestModule): Count {
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const test of module.children.allTests()) {
    const { state } = test.result()
    if (state === 'passed') count.passed++
    else if (state === 'failed') count.failed++
    else count.skipped++
  }
  // If a file does not load or a hook fails, there is no failed test.
  if (!module.ok() && count.failed === 0) count.failed++
  return count
}
