/** The workflows of GitHub Actions, checked by actionlint. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from './documents.ts'
import { pathOf } from './servers/find-program.ts'
import { programs } from './servers/programs.ts'
import { describeWithPrograms } from './servers/suite.ts'

const folder = join(root, '.github/workflows')
const workflows = readdirSync(folder).map((name) => join(folder, name))

/** Returns what actionlint finds in these workflows. It runs other linters only if they are installed. */
function lint(paths: readonly string[]): string {
  const flags = ['-no-color', '-shellcheck=', '-pyflakes=']
  const { status, stdout, stderr } = spawnSync(pathOf(programs.actionlint), [...flags, ...paths], { encoding: 'utf8' })
  expect([0, 1], stderr).toContain(status)
  return stdout
}

describeWithPrograms([programs.actionlint], 'actionlint', () => {
  test('actionlint finds nothing in the workflows', () => {
    expect(workflows.length).toBeGreaterThan(1)
    expect(lint(workflows)).toBe('')
  })

  test('actionlint finds a step without an action and an unknown permission', () => {
    const planted = mkdtempSync(join(tmpdir(), 'tenure-workflow-'))
    onTestFinished(() => rmSync(planted, { recursive: true }))
    const workflow = {
      on: 'push',
      permissions: { 'id-tokens': 'write' },
      jobs: { a: { 'runs-on': 'ubuntu-latest', steps: [{}] } },
    }
    // JSON is valid YAML.
    writeFileSync(join(planted, 'ci.yml'), JSON.stringify(workflow))
    const found = lint([join(planted, 'ci.yml')])
    expect(found).toContain('unknown permission scope "id-tokens"')
    expect(found).toMatch(/step must run script with "run" section or run action with "uses" section/)
  })
})
