import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { root } from './source-files.ts'

interface Step {
  readonly run?: string
  readonly uses?: string
}

interface Job {
  readonly needs?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly strategy?: {
    readonly matrix: { os: string[]; node: number[]; include: { os: string; node: number }[] }
  }
  readonly steps: readonly Step[]
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly publishConfig?: { readonly access: string }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly engines?: { readonly node: string }
}

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const workflow = (name: string) => parse(read(`.github/workflows/${name}.yml`)) as { jobs: Record<string, Job> }
const runs = (job: Job | undefined) => (job?.steps ?? []).map(({ run = '' }) => run).join('\n')
const manifests = readdirSync(join(root, 'packages')).map(
  (name) => JSON.parse(read(`packages/${name}/package.json`)) as Manifest,
)
const published = manifests.filter((manifest) => manifest.private !== true)

test('CI runs the everyday tests on Linux with each supported Node, on macOS and on Windows, and all tests on Debian', () => {
  const { everyday, full } = workflow('ci').jobs
  const matrix = everyday?.strategy?.matrix
  expect(matrix?.os).toEqual(['ubuntu-latest'])
  expect(matrix?.node).toEqual([20, 22, 24])
  expect(published.map(({ engines }) => engines?.node)).toEqual(published.map(() => `>=${matrix?.node[0]}.19`))
  expect(matrix?.include.map(({ os }) => os)).toEqual(['macos-latest', 'windows-latest'])
  expect(runs(everyday)).toContain('npm test')
  expect(runs(full)).toContain('.ci/run')
})

test('the release publishes every public package with provenance, after the packages that it depends on', () => {
  const [, list = ''] = /for name in (.+); do/.exec(runs(workflow('release').jobs['publish'])) ?? []
  const order = list.split(' ')
  expect(order.toSorted()).toEqual(published.map(({ name }) => name).toSorted())
  for (const { name, dependencies = {} } of published) {
    const needed = Object.keys(dependencies).filter((other) => order.includes(other))
    expect(
      needed.filter((other) => order.indexOf(other) > order.indexOf(name)),
      name,
    ).toEqual([])
  }
  expect(published.map(({ publishConfig }) => publishConfig?.access)).toEqual(published.map(() => 'public'))
})

test('only the job that publishes can prove its identity, and it runs no script of a dependency', () => {
  const { jobs } = workflow('release')
  const proving = Object.entries(jobs).filter(([, { permissions }]) => permissions?.['id-token'] !== undefined)
  expect(proving.map(([name]) => name)).toEqual(['publish'])
  const { publish } = jobs
  expect(publish?.needs).toBe('verify')
  expect(runs(publish)).toContain('npm publish --provenance --ignore-scripts')
  expect(runs(publish)).toContain('npm ci --ignore-scripts')
  expect(runs(publish)).toContain('npm sbom --package-lock-only --sbom-format spdx --omit dev')
  expect(JSON.stringify(jobs)).not.toMatch(/NPM_TOKEN|NODE_AUTH_TOKEN/)
})

test('all packages have one version, and changesets keeps it so', () => {
  expect(new Set(manifests.map(({ version }) => version)).size).toBe(1)
  const { fixed, access } = JSON.parse(read('.changeset/config.json')) as { fixed: string[][]; access: string }
  expect(access).toBe('public')
  expect(fixed).toEqual([['tenure', '@tenure/*']])
  expect(manifests.filter(({ name }) => name !== 'tenure' && !name.startsWith('@tenure/'))).toEqual([])
})
