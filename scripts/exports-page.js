// Writes docs/reference/exports.md: every name that the packages export, with the first sentence of its comment.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { sourcesByName } from './source-paths.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = join(root, 'packages')

export const exportsPageFile = join(root, 'docs/reference/exports.md')

/**
 * @typedef {{ name: string; kind: string; about: string }} ExportedName
 * @typedef {{ entry: string; about: string; internal: boolean; names: ExportedName[] }} EntryPoint
 */

/** Entry points for Tenure's own packages. */
const internal = /\/internal(?:\/|$)/

/**
 * Returns the entry points of every published package with the names that they export. Reads the sources, so no build
 * is needed.
 * @returns {EntryPoint[]}
 */
export function entryPoints() {
  const sources = sourcesByName([...new Set(['tenure', 'testing', ...readdirSync(packages).filter(isPublished)])])
  const program = ts.createProgram(Object.values(sources), {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ESNext,
    allowImportingTsExtensions: true,
    noEmit: true,
    noLib: true,
    types: [],
    paths: Object.fromEntries(Object.entries(sources).map(([name, file]) => [name, [file]])),
  })
  return Object.entries(sources).map(([entry, file]) => ({
    entry,
    internal: internal.test(entry),
    about: moduleComment(program.getSourceFile(file)),
    names: namesIn(program, file),
  }))
}

/** @param {string} folder */
function isPublished(folder) {
  return JSON.parse(readFileSync(join(packages, folder, 'package.json'), 'utf8')).private !== true
}

/**
 * @param {ts.Program} program
 * @param {string} file
 * @returns {ExportedName[]}
 */
function namesIn(program, file) {
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(file)
  const module = source && checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`${file} exports nothing`)
  return checker
    .getExportsOfModule(module)
    .map((exported) => {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      const comment = ts.displayPartsToString(symbol.getDocumentationComment(checker))
      return { name: exported.name, kind: kindOf(symbol), about: firstSentence(comment) }
    })
    .toSorted((a, b) => Number(isType(a)) - Number(isType(b)) || a.name.localeCompare(b.name, 'en'))
}

/**
 * Types come last, because most programs never name them.
 * @param {ExportedName} name
 */
function isType({ kind }) {
  return kind === 'interface' || kind === 'type'
}

/** @param {ts.Symbol} symbol */
function kindOf(symbol) {
  const { flags } = symbol
  if (flags & ts.SymbolFlags.Class) return 'class'
  if (flags & ts.SymbolFlags.Function) return 'function'
  if (flags & ts.SymbolFlags.Variable) return 'constant'
  if (flags & ts.SymbolFlags.Interface) return 'interface'
  if (flags & ts.SymbolFlags.TypeAlias) return 'type'
  throw new Error(`${symbol.name} is none of the kinds that this page names`)
}

/**
 * Returns the comment at the start of an entry point.
 * @param {ts.SourceFile | undefined} source
 */
function moduleComment(source) {
  const [, text = ''] = /^\/\*\*([^]*?)(?:\n\s*\*\s*@module\s*)?\*\//.exec(source?.text ?? '') ?? []
  return firstSentence(text.replaceAll(/^\s*\* ?/gm, ''))
}

/** @param {string} comment */
export function firstSentence(comment) {
  const [paragraph = ''] = comment.trim().split(/\n\s*\n/)
  const line = paragraph
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\{@link ([^}]+?) ?\}/g, '`$1`')
    .trim()
  return /^.*?[.:](?=\s+[A-Z`]|$)/.exec(line)?.[0].replace(/:$/, '.') ?? line
}

/** @param {EntryPoint[]} all */
export function exportsPage(all) {
  const sections = all.filter((entry) => !entry.internal).map(section)
  const own = all.filter((entry) => entry.internal).map(({ entry, about }) => `| \`${entry}\` | ${cell(about)} |`)
  return `# Every exported name

\`npm run format\` writes this page from the comments in the sources. [The API](api.md) explains how to use these names.

${sections.join('\n')}
## Internal entry points

Tenure's own packages import these. They may change in any release, which is why the packages depend on exact versions of each other. Do not import them.

| entry | contains |
|---|---|
${own.join('\n')}
`
}

/** @param {EntryPoint} entry */
function section({ entry, about, names }) {
  const rows = names.map(({ name, kind, about: text }) => `| \`${name}\` | ${kind} | ${cell(text)} |`)
  return `## \`${entry}\`\n\n${about}\n\n| name | kind | meaning |\n|---|---|---|\n${rows.join('\n')}\n`
}

/** @param {string} text */
function cell(text) {
  return text.replaceAll('|', '\\|')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(exportsPageFile, exportsPage(entryPoints()))
