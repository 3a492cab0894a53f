import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readDocument, root } from './documents.ts'
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

/** The bytes that a folder takes on a disk with blocks of 4 KB, as `du` counts them. */
function bytesIn(folder: string): number {
  const blocks = (size: number) => Math.ceil(size / 4_096) * 4_096
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    return sum + (entry.isDirectory() ? bytesIn(path) : blocks(statSync(path).size))
  }, 4_096)
}

/** The packages that npm installs with one package, including itself, in a folder where all of them are siblings. */
function closureOf(name: string, modules: string, found = new Set<string>()): Set<string> {
  const manifest = join(modules, name, 'package.json')
  if (found.has(name) || !existsSync(manifest)) return found
  found.add(name)
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(manifest, 'utf8')) as Record<string, object>
  for (const each of Object.keys({ ...dependencies, ...optionalDependencies })) closureOf(each, modules, found)
  return found
}

/** The sizes in docs/reference/requirements.md, in MB, by package. */
const statedSizes = new Map(
  [...readDocument('docs/reference/requirements.md').matchAll(/^\| `(\S+)` \| .* \| (\d+) MB \|$/gm)].map(
    ([, name = '', size]) => [name, Number(size)] as const,
  ),
)

describeWithPrograms([programs.node22], 'the published packages', () => {
  test(
    'the command works without the service, says how to install it, and every package has the documented size',
    { timeout: 300_000 },
    async () => {
      const folder = temporaryFolder()
      const names = ['tenure', '@tenure/cli', '@tenure/testing', '@tenure/multicluster', '@tenure/service']
      const fileOf = (name: string) => `./${name.replace('@', '').replace('/', '-')}-0.1.0.tgz`
      const pack = names.flatMap((name) => ['-w', name])
      await npm(programs.node22, root, 'pack', '--ignore-scripts', '--pack-destination', folder, ...pack)
      writeFileSync(join(folder, 'package.json'), '{ "private": true }')
      const install = (...packages: string[]) =>
        npm(programs.node22, folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', ...packages.map(fileOf))
      const modules = join(folder, 'node_modules')
      const tenure = (...args: string[]) => {
        const child = spawn(pathOf(programs.node22), [join(modules, '@tenure/cli/bin/tenure.js'), ...args], {
          cwd: folder,
          stdio: ['ignore', 'pipe', 'pipe'],
        })
        let output = ''
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
        onTestFinished(() => void child.kill('SIGKILL'))
        const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, output }))
        return { child, ended, output: () => output }
      }

      await install('tenure', '@tenure/cli')
      expect(readdirSync(join(modules, '@tenure'))).toEqual(['cli'])
      const ran = tenure(
        'run',
        'jobs',
        '--store',
        `file://${folder}/leases`,
        '--once',
        '--',
        'sh',
        '-c',
        'echo "term $TENURE_TERM"',
      )
      expect(await ran.ended).toMatchObject({ code: 0, output: expect.stringContaining('term 1\n') })
      for (const [name, args] of [
        ['service', ['serve']],
        ['service', ['token', 'key', '--out', 'tenure.key']],
        ['service', ['backup', '--data', 'a', '--to', 'b']],
        ['multicluster', ['controller', '--cluster', 'east', '--store', `file://${folder}/leases`]],
      ] as const) {
        const { code, output } = await tenure(...args).ended
        expect([args[0], code]).toEqual([args[0], 69])
        expect(output).toContain(`tenure: tenure ${args[0]}`)
        expect(output).toContain(`npm install @tenure/${name}@0.1.0 (add --global if`)
      }

      await install('@tenure/testing', '@tenure/multicluster', '@tenure/service')
      const served = tenure('serve', '--listen', '127.0.0.1:0', '--data', 'data')
      await vi.waitUntil(() => served.output().includes('the service is listening'), { timeout: 60_000 })
      served.child.kill('SIGTERM')
      expect(await served.ended).toMatchObject({ code: 0 })

      const sizes = names.map((name) => {
        const bytes = [...closureOf(name, modules)].map((each) => bytesIn(join(modules, each)))
        return [name, bytes.reduce((sum, size) => sum + size, 0) / 1e6] as const
      })
      expect([...statedSizes.keys()].toSorted()).toEqual(names.toSorted())
      for (const [name, size] of sizes) {
        const stated = statedSizes.get(name) ?? 0
        const said = `${name} takes ${size.toFixed(1)} MB, and docs/reference/requirements.md says ${stated} MB`
        expect(Math.abs(size - stated), said).toBeLessThanOrEqual(Math.max(1, stated / 10))
      }

      const manifest = join(modules, '@tenure/service/package.json')
      writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"version": "0.1.0"', '"version": "0.0.9"'))
      const { code, output } = await tenure('serve').ended
      expect(code).toBe(69)
      expect(output).toContain('needs the package @tenure/service, version 0.1.0, but 0.0.9 is installed.')
    },
  )
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
