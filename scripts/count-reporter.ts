import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { missingServersVariable } from '../test/servers/report-missing.ts'

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
    const lines = [...this.#untested(), ...this.#closing(), countOf(modules, unhandledErrors)]
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

function countOf(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): string {
  const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
  for (const module of modules) {
    // If a file does not load or a hook fails, there is no failed test.
    const before = count.failed
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'passed') count.passed++
      else if (state === 'failed') count.failed++
      else count.skipped++
    }
    if (!module.ok() && count.failed === before) count.failed++
  }
  return `${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`
}
