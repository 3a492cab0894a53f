import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { root } from './documents.ts'
import { pathOf, type Program } from './servers/find-program.ts'
import { programs } from './servers/programs.ts'
import { describeWithPrograms } from './servers/suite.ts'

interface Locked {
  readonly version?: string
  readonly dev?: boolean
  readonly optional?: boolean
  readonly link?: boolean
}

const [, finalStage = ''] = readFileSync(join(root, 'deploy/docker/Dockerfile'), 'utf8').split(/^FROM (?!.* AS ).*$/m)

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-install-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

/** Runs npm with another Node, and returns its output. */
async function npm(node: Program, cwd: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, PATH: `${dirname(pathOf(node))}${delimiter}${process.env['PATH']}` }
  const { stdout, stderr } = await promisify(execFile)('npm', args, { cwd, env, timeout: 110_000 })
  return stdout + stderr
}

describeWithPrograms([programs.node22], 'the image', () => {
  test('the image installs what its lockfile names, and runs', { timeout: 120_000 }, async () => {
    const image = temporaryFolder()
    for (const [, from, to = ''] of finalStage.matchAll(/^COPY (?:--from=build \/src\/)?(.+) (\S+)$/gm)) {
      for (const path of from?.split(' ') ?? []) {
        const target = to.endsWith('/') ? join(image, to, path.split('/').at(-1) ?? '') : join(image, to)
        mkdirSync(dirname(target), { recursive: true })
        cpSync(join(root, path), target, { recursive: true })
      }
    }
    const [, args = ''] = /^RUN npm (ci .*?) &&/m.exec(finalStage) ?? []
    await npm(programs.node22, image, ...args.split(' '))

    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, Locked>
    }
    const expected = Object.entries(packages).filter(
      ([path, { dev, link }]) => /node_modules\//.test(path) && !dev && !link,
    )
    const versionOf = (path: string) =>
      (JSON.parse(readFileSync(join(image, path, 'package.json'), 'utf8')) as { version: string }).version
    expect(expected.length).toBeGreaterThan(50)
    for (const [path, { version, optional }] of expected) {
      if (existsSync(join(image, path)) || !optional) expect([path, versionOf(path)]).toEqual([path, version])
    }
    expect(existsSync(join(image, 'node_modules/vitest'))).toBe(false)

    const command = join(image, /ln -s \/opt\/tenure\/(\S+)/.exec(finalStage)?.[1] ?? '')
    const run = [command, 'run', 'jobs', '--store', `file://${image}/leases`, '--once', '--']
    const ran = await promisify(execFile)(pathOf(programs.node22), [...run, 'sh', '-c', 'echo "term $TENURE_TERM"'])
    expect(ran.stdout).toBe('term 1\n')
  })
})

describeWithPrograms([programs.node20], 'on the oldest Node that is supported', () => {
  test(
    'no package of the project requires a newer Node than the oldest supported one',
    { timeout: 120_000 },
    async () => {
      const said = await npm(programs.node20, root, 'ci', '--dry-run', '--ignore-scripts')
      expect(said).toMatch(/(added|changed) \d+ packages?|up to date/)
      expect(said).not.toContain('EBADENGINE')
    },
  )
})
