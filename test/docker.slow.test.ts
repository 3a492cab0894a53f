import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { root } from './documents.ts'
import { serve } from './service/serve.ts'

const text = readFileSync(join(root, 'deploy/docker/Dockerfile'), 'utf8')
/** Each instruction of the Dockerfile with its arguments, on one line. */
const instructions = text
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter(Boolean)
  .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)] as const)
const all = (name: string) => instructions.filter(([each]) => each === name).map(([, rest]) => rest)
const last = (name: string) => all(name).at(-1) ?? ''

describe('the container image', () => {
  test('the container image is built from existing files', () => {
    const copied = all('COPY')
      .filter((rest) => !rest.startsWith('--from'))
      .flatMap((rest) => rest.split(' ').slice(0, -1))
    expect(copied).toContain('packages/cli')
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([])
    const workspaces = readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)
    expect(copied).toEqual(expect.arrayContaining(workspaces))
  })

  test('the container image has one base image, whose digest can be set at build time', () => {
    expect(all('ARG')).toEqual(['NODE_IMAGE=node:22-slim'])
    expect(all('FROM')).toEqual(['${NODE_IMAGE} AS build', '${NODE_IMAGE}'])
    expect(instructions[0]?.[0]).toBe('ARG')
    const readme = readFileSync(join(root, 'deploy/docker/README.md'), 'utf8')
    expect(readme).toContain('--build-arg NODE_IMAGE=node:22-slim@sha256:')
  })

  test('the container image installs only what the lockfile names', () => {
    const installs = all('RUN').flatMap((rest) => rest.match(/\bnpm (?:ci|i|install|add|exec|update)\b/g) ?? [])
    expect(installs).toEqual(['npm ci', 'npm ci'])
    const copied = all('COPY').filter((rest) => /\bpackage-lock\.json\b/.test(rest) && /(^| )\.npmrc /.test(rest))
    expect(copied).toHaveLength(2)
  })

  test('the container image contains the clients of the stores that need one', () => {
    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
    for (const name of ['pg', 'ioredis']) expect(packages[`node_modules/${name}`]).not.toHaveProperty('dev')
    expect(packages['node_modules/vitest']).toHaveProperty('dev', true)
  })

  test('the container image runs as a non-root user under an init that forwards signals', () => {
    expect(last('USER')).toBe('node')
    expect(JSON.parse(last('ENTRYPOINT'))).toEqual(['tini', '--', 'tenure'])
    expect(JSON.parse(last('CMD'))).toEqual(['serve'])
    expect(all('RUN').join('\n')).toContain('install --yes --no-install-recommends tini')
  })

  test('the container image has a health check of the service', async () => {
    const [, command] = /CMD (\[.*\])$/.exec(last('HEALTHCHECK')) ?? []
    const [program, ...args] = JSON.parse(command ?? '') as string[]
    expect(program).toBe('node')
    const check = (url: string) =>
      promisify(execFile)(process.execPath, args, { env: { ...process.env, TENURE_HEALTH_URL: url } }).then(
        () => 0,
        (error: { code: number }) => error.code,
      )
    const service = await serve()
    onTestFinished(() => service.stop())
    expect(await check(`${service.url}/healthz`)).toBe(0)
    expect(await check(`${service.url}/nowhere`)).toBe(1)
    await service.stop()
    expect(await check(`${service.url}/healthz`)).toBe(1)
  })
})

describe('the packed packages', () => {
  const names = { tenure: 'tenure', service: '@tenure/service', cli: '@tenure/cli' }
  let folder: string
  let command: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tenure-packed-'))
    const packages = Object.values(names).flatMap((name) => ['--workspace', name])
    execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', folder, ...packages], {
      cwd: root,
      stdio: 'ignore',
    })
    const modules = join(folder, 'node_modules')
    for (const [place, name] of Object.entries(names)) {
      const target = join(modules, name)
      mkdirSync(target, { recursive: true })
      const tarball = readdirSync(folder).find((file) =>
        file.startsWith(`${name.replace('@', '').replace('/', '-')}-0`),
      )
      execFileSync('tar', ['-xzf', join(folder, tarball ?? ''), '-C', target, '--strip-components', '1'])
      // The manifest as a registry would return it.
      const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
        readFileSync(join(target, 'package.json'), 'utf8'),
      ) as Record<string, Record<string, string>>
      for (const needed of Object.keys({ ...dependencies, ...optionalDependencies })) {
        if (Object.values(names).includes(needed)) continue
        const near = join(root, 'packages', place, 'node_modules', needed)
        const link = join(target, 'node_modules', needed)
        mkdirSync(join(link, '..'), { recursive: true })
        symlinkSync(existsSync(near) ? near : join(root, 'node_modules', needed), link, 'dir')
      }
    }
    const linked = /ln -s \/opt\/tenure\/(\S+) \/usr\/local\/bin\/tenure/.exec(text)?.[1] ?? 'nothing'
    command = join(folder, linked)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test('the packed packages contain the command where the image links to it', () => {
    const { status, stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
    const { version } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')) as { version: string }
    expect({ status, stdout }).toEqual({ status: 0, stdout: `${version}\n` })
  })

  test('the packed command runs a program while it leads and shows the leader', () => {
    const store = pathToFileURL(join(folder, 'leases')).href
    const args = ['run', 'jobs', '--store', store, '--once', '--', 'sh', '-c', 'echo "term $TENURE_TERM"']
    const ran = spawnSync(command, args, { encoding: 'utf8' })
    expect({ status: ran.status, stdout: ran.stdout }, ran.stderr).toEqual({ status: 0, stdout: 'term 1\n' })
    const { stdout } = spawnSync(command, ['leader', 'jobs', '--store', store, '--json'], { encoding: 'utf8' })
    expect(JSON.parse(stdout)).toMatchObject({ leader: null, previousLeader: { term: 1 } })
  })

  test('the packed command runs the demo', () => {
    const ran = spawnSync(command, ['demo', '--end-after', '6s'], { encoding: 'utf8' })
    expect(ran.status, ran.stderr).toBe(0)
    expect(ran.stdout).toContain('leads term 1')
  })
})
