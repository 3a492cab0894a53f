import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { root } from './documents.ts'
import { pathOf, type Program } from './servers/find-program.ts'
import { programs } from './servers/programs.ts'
import { describeWithPrograms } from './servers/suite.ts'

const compilers = {
  '5.5': programs.typescript55,
  '5.6': programs.typescript56,
  '5.7': programs.typescript57,
  '5.8': programs.typescript58,
  '5.9': programs.typescript59,
  '6.0': programs.typescript60,
  '7.0': programs.typescript70,
}
type Version = keyof typeof compilers

const manifest = JSON.parse(readFileSync(join(root, 'packages/tenure/package.json'), 'utf8')) as {
  readonly exports: Readonly<Record<string, unknown>>
}
const entries = Object.keys(manifest.exports).filter((entry) => !entry.endsWith('.json'))

/** Uses every entry point and some of the types. */
const program = `
${entries.map((entry, index) => `import * as entry${index} from 'tenure${entry.slice(1)}'`).join('\n')}
import { lead, memoryStore, type Leadership } from 'tenure'

export const all = [${entries.map((_, index) => `entry${index}`).join(', ')}]
export const work = async ({ term, signal }: Leadership): Promise<number> => {
  signal.throwIfAborted()
  return term
}
void lead({ store: memoryStore(), election: 'jobs' }, work)
`

/** Uses the client that only newer versions of Node.js have. */
const ofNodeSqlite = `
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { sqliteStore } from 'tenure/stores/sqlite'

export const store = sqliteStore({ client: new DatabaseSync('leases.db') })
// @ts-expect-error A statement is not a client. Without the types of node:sqlite, this would not be an error.
export const onStatement = (client: StatementSync) => sqliteStore({ client })
`

/** A user's project with the built package, as an ES module and as a CommonJS module. */
const project = mkdtempSync(join(tmpdir(), 'tenure-typescript-'))
afterAll(() => rmSync(project, { recursive: true }))
mkdirSync(join(project, 'node_modules'))
symlinkSync(join(root, 'packages/tenure'), join(project, 'node_modules/tenure'))
for (const file of ['main.mts', 'main.cts']) writeFileSync(join(project, file), program)
writeFileSync(join(project, 'sqlite.mts'), ofNodeSqlite)

/** Returns the codes of the compiler's errors, each with the end of the file name. Declarations are also checked. */
async function compile(version: Version, ...options: string[]): Promise<string[]> {
  return compileWith(compilers[version], ...options)
}

async function compileWith(program: Program, ...options: string[]): Promise<string[]> {
  const compiler = pathOf(program)
  const types = join(dirname(compiler), '..', '..', '@types')
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--target', 'es2022', '--lib', 'es2022']
  const args = [compiler, ...strict, '--skipDefaultLibCheck', '--typeRoots', types, '--types', 'node', ...options]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: project, timeout: 110_000 }).catch(
    (error: { stdout: string }) => error,
  )
  const errors = stdout.matchAll(/(\.\w+)\(\d+,\d+\): error (TS\d+)/g)
  return [...new Set(Array.from(errors, ([, file, code]) => `${file} ${code}`))]
}

const both = ['main.mts', 'main.cts']
/** This TypeScript version does not let a CommonJS module import an ES module. */
const notFromCommonJs = ['.cts TS1479']

describe.each(Object.keys(compilers) as Version[])('TypeScript %s', { timeout: 120_000 }, (version) => {
  describeWithPrograms([compilers[version]], 'with the types of the package', () => {
    if (version === '5.5') {
      test(`TypeScript ${version} compiles the types only with skipLibCheck`, async () => {
        expect(await compile(version, '--module', 'nodenext', 'main.mts')).toEqual(['.ts TS2314'])
        expect(await compile(version, '--module', 'nodenext', '--skipLibCheck', 'main.mts')).toEqual([])
      })
      return
    }

    const expected = Number(version) >= 5.8 ? [] : notFromCommonJs
    test(`TypeScript ${version} compiles ES modules, ${expected.length > 0 ? 'but not' : 'and'} CommonJS modules`, async () => {
      expect(await compile(version, '--module', 'nodenext', ...both)).toEqual(expected)
    })

    // The remaining tests run only with the oldest and the newest version, because each run takes seconds.
    if (version !== '5.6' && version !== '7.0') return

    test(`TypeScript ${version} compiles for a bundler`, async () => {
      expect(await compile(version, '--module', 'esnext', '--moduleResolution', 'bundler', 'main.mts')).toEqual([])
    })

    test(`TypeScript ${version} cannot compile CommonJS modules for node16`, async () => {
      expect(await compile(version, '--module', 'node16', ...both)).toEqual(notFromCommonJs)
    })
  })
})

describeWithPrograms([programs.typescriptNode24], 'the types of Node.js 24', () => {
  test('sqliteStore accepts a DatabaseSync of node:sqlite', { timeout: 120_000 }, async () => {
    expect(await compileWith(programs.typescriptNode24, '--module', 'nodenext', 'sqlite.mts')).toEqual([])
  })
})
