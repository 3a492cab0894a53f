import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { root } from './documents.ts'

interface Manifest {
  readonly name: string
  readonly exports: Readonly<Record<string, unknown>>
  readonly dependencies?: Readonly<Record<string, string>>
}

const compiler = join(root, 'node_modules/typescript-7/bin/tsc')

/**
 * A user's project with only the package and the types of Node installed. The package is copied, because through a link
 * the compiler would also find the packages of the workspace.
 */
function projectWith(folder: string): string {
  const project = mkdtempSync(join(tmpdir(), 'tenure-declarations-'))
  onTestFinished(() => rmSync(project, { recursive: true }))
  const modules = join(project, 'node_modules')
  const install = (from: string): void => {
    const { name, dependencies = {} } = manifestOf(from)
    const own = join(modules, name)
    mkdirSync(own, { recursive: true })
    for (const part of ['package.json', 'dist']) cpSync(join(root, from, part), join(own, part), { recursive: true })
    for (const needed of Object.keys(dependencies)) {
      const workspace = workspaces.get(needed)
      if (workspace) install(workspace)
      else link(needed)
    }
  }
  const link = (name: string): void => {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  install(folder)
  link('@types/node')
  const { name, exports } = manifestOf(folder)
  const entries = Object.keys(exports).filter((entry) => !entry.endsWith('.json'))
  const lines = entries.map((entry, index) => `export * as entry${index} from '${name}${entry.slice(1)}'`)
  writeFileSync(join(project, 'main.mts'), lines.join('\n'))
  return project
}

const manifestOf = (folder: string) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest

const workspaces = new Map(
  readdirSync(join(root, 'packages')).map((name) => [manifestOf(`packages/${name}`).name, `packages/${name}`]),
)

const strict = ['--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--lib', 'es2022']

/** Returns the compiler's diagnostics for our own declarations and for the program. */
async function compile(project: string, ...output: string[]): Promise<string[]> {
  const args = [compiler, ...strict, ...(output.length > 0 ? output : ['--noEmit']), 'main.mts']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: project }).catch(
    (error: { stdout: string }) => error,
  )
  return stdout.split('\n').filter((line) => /^(?:main\.mts|node_modules\/(?:@tenure\/|tenure\/)).*error/.test(line))
}

test.each(['packages/tenure', 'packages/testing', 'packages/service', 'packages/multicluster'])(
  'TypeScript 7 compiles a strict program with every entry point of %s and checks its declarations',
  async (folder) => {
    expect(await compile(projectWith(folder))).toEqual([])
  },
)

const storeEntries = [
  'azure-blob',
  'consul',
  'dynamodb',
  'etcd',
  'file',
  'gcs',
  'kubernetes',
  'multicluster',
  'mysql',
  'postgres',
  'sqlite',
  'redis',
  's3',
  'service',
]
const declarationsOnly = ['--declaration', '--emitDeclarationOnly', '--outDir', 'out']

/** A program that exports a store whose type the compiler must name in its declarations. */
function projectWithStore(name: string): string {
  const project = projectWith('packages/tenure')
  const factory = `${name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())}Store`
  const text = `import { ${factory} } from 'tenure/stores/${name}'\nexport const store = ${factory}({} as never)\n`
  writeFileSync(join(project, 'main.mts'), text)
  return project
}

// One program each, because the compiler also finds a type in the other entry points that a program imports.
test.each(storeEntries)(
  'TypeScript 7 writes declarations for an exported store of tenure/stores/%s, because its type is public',
  async (name) => {
    expect(await compile(projectWithStore(name), ...declarationsOnly)).toEqual([])
  },
)

test('TypeScript 7 reports an exported store whose entry point does not export its type', async () => {
  const project = projectWithStore('etcd')
  const entry = join(project, 'node_modules/tenure/dist/stores/etcd/index.d.ts')
  writeFileSync(entry, readFileSync(entry, 'utf8').replace(/^export type \{ InspectableStore \}.*$/m, ''))
  expect((await compile(project, ...declarationsOnly)).join('\n')).toMatch(
    /'store' cannot be named.*'InspectableStore'/,
  )
})

test('TypeScript 7 reports a declaration that does not name the types of Node', async () => {
  const project = projectWith('packages/tenure')
  const declarations = join(project, 'node_modules/tenure/dist')
  for (const name of readdirSync(declarations, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue
    const text = readFileSync(join(declarations, name), 'utf8')
    writeFileSync(join(declarations, name), text.replace('/// <reference types="node" />\n', ''))
  }
  expect((await compile(project)).join('\n')).toContain("Cannot find name 'node:http'")
})
