import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { sourcesByName } from '../scripts/source-paths.js'
import { errorCodes } from '../packages/tenure/src/common/errors.ts'

const root = join(import.meta.dirname, '..')
const entries = Object.entries(sourcesByName(['tenure', 'testing']))
  .filter(([name]) => !name.startsWith('tenure/internal'))
  .map(([name, file]) => ({ name, file }))

interface Export {
  readonly name: string
  readonly described: boolean
  readonly example: boolean
  readonly callable: boolean
}

function exportsOf(files: string[]): Map<string, Export[]> {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.base.json'), (path) => readFileSync(path, 'utf8'))
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root)
  const program = ts.createProgram(files, { ...options, noEmit: true })
  const checker = program.getTypeChecker()
  return new Map(
    files.map((file) => {
      const source = program.getSourceFile(file)
      const module = source && checker.getSymbolAtLocation(source)
      const symbols = module ? checker.getExportsOfModule(module) : []
      return [file, symbols.map((symbol) => describe(symbol, checker))]
    }),
  )
}

function describe(exported: ts.Symbol, checker: ts.TypeChecker): Export {
  const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
  return {
    name: exported.name,
    described: symbol.getDocumentationComment(checker).length > 0,
    example: symbol.getJsDocTags(checker).some((tag) => tag.name === 'example'),
    callable: (symbol.flags & ts.SymbolFlags.Value) !== 0 && isCallable(checker.getTypeOfSymbol(symbol)),
  }
}

function isCallable(type: ts.Type): boolean {
  return type.getCallSignatures().length > 0 || type.getConstructSignatures().length > 0
}

const exported = exportsOf(entries.map(({ file }) => file))

test.each(entries)('every export of $name has a comment, and every function and class has an example', ({ file }) => {
  const names = exported.get(file) ?? []
  expect(names, 'the entry point exports nothing').not.toEqual([])
  expect(names.filter(({ described }) => !described).map(({ name }) => name)).toEqual([])
  expect(names.filter(({ callable, example }) => callable && !example).map(({ name }) => name)).toEqual([])
})

test('an export without a comment and a function without an example are reported', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-docs-'))
  try {
    const file = join(folder, 'planted.ts')
    writeFileSync(
      file,
      '/** Adds. */\nexport function add() {}\nexport class Bare {}\n/** One. */\nexport const one = 1\n',
    )
    expect(exportsOf([file]).get(file)).toEqual([
      { name: 'add', described: true, example: false, callable: true },
      { name: 'Bare', described: false, example: false, callable: true },
      { name: 'one', described: true, example: false, callable: false },
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('docs/reference/errors.md has exactly one row for each error code', () => {
  const rows = readFileSync(join(root, 'docs/reference/errors.md'), 'utf8')
    .split('\n')
    .map((line) => /^\| `([A-Z_]+)` \|(.+)\|(.+)\|(.+)\|$/.exec(line))
    .filter((row) => row !== null)
  expect(rows.map((row) => row[1]).toSorted()).toEqual([...errorCodes].toSorted())
  for (const row of rows) expect(row[4], row[1]).toMatch(/^ (yes|no)\b/)
})
