// Merges the declarations that are not entry points into one file. A hundred small files, each with its imports, would
// make the package a twentieth larger.
import { readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'

/** The module that has them, relative to `dist`. Users cannot import it, because `exports` does not name it. */
const merged = 'types.d.ts'

/**
 * Moves every declaration below `target` that is not in an entry point to one module, and lets the entry points import
 * it from there.
 * @param {string} target
 * @param {string[]} entries
 */
export function mergeDeclarations(target, entries) {
  const names = readdirSync(target, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.d.ts'))
  const entryFiles = new Set(entries.map((entry) => `${entry}.d.ts`))
  const parts = names.filter((name) => !entryFiles.has(name)).toSorted()
  if (parts.length === 0) return
  /**
   * The specifier of what the file `from` imports, for the file `to`.
   * @param {string} from @param {string} to @param {string} text
   */
  const specifierFor = (from, to, text) => {
    if (!text.startsWith('.')) return text
    const file = join(dirname(from), text.replace(/\.[jt]s$/, '.d.ts'))
    const moved = relative(dirname(to), entryFiles.has(file) ? file : merged).replace(/\.d\.ts$/, '.ts')
    return moved.startsWith('.') ? moved : `./${moved}`
  }
  const open = (/** @type {string} */ name) =>
    ts.createSourceFile(name, readFileSync(join(target, name), 'utf8'), ts.ScriptTarget.Latest, true)

  const mergedModule = specifierFor(merged, merged, `./${merged}`)
  /** The names to import, by module. @type {Map<string, Set<string>>} */
  const imports = new Map()
  /** Where each name is from: the file that declares it, or the module that it is imported from. @type {Map<string, string>} */
  const places = new Map()
  const place = (/** @type {string} */ name, /** @type {string} */ from) => {
    const other = places.get(name) ?? from
    if (other !== from) throw new Error(`${other} and ${from} both have a ${name}, so they cannot be merged.`)
    places.set(name, from)
  }
  const texts = parts.map((name) => {
    /** @type {Set<string>} */
    const fromOthers = new Set()
    const kept = open(name).statements.map((statement) => {
      refuseImportTypes(statement)
      const module = moduleOf(statement)
      if (module === undefined) {
        for (const declared of declaredNames(statement)) place(declared, name)
        // What a file only forwards is exported where it is declared.
        const isForwarded =
          ts.isExportDeclaration(statement) && importedNames(statement).every((each) => fromOthers.has(each))
        return isForwarded ? '' : statement.getFullText()
      }
      const specifier = specifierFor(name, merged, module.text)
      for (const imported of importedNames(statement)) {
        fromOthers.add(imported)
        if (specifier === mergedModule) continue
        place(imported, specifier)
        imports.set(specifier, (imports.get(specifier) ?? new Set()).add(imported))
      }
      return ''
    })
    return kept.join('').trim()
  })
  for (const name of entryFiles) {
    if (!names.includes(name)) continue
    const source = open(name)
    const text = source.statements.map((statement) => {
      refuseImportTypes(statement)
      const module = moduleOf(statement)
      if (module === undefined) return statement.getFullText()
      const leading = statement.getFullText().slice(0, statement.getLeadingTriviaWidth())
      return leading + withModule(statement, module, specifierFor(name, name, module.text))
    })
    writeFileSync(join(target, name), `${text.join('').trim()}\n`)
  }
  for (const name of parts) rmSync(join(target, name))
  removeEmptyFolders(target)
  // With the last line, the file exports only the names that say so.
  const lines = [...imports].map(([module, list]) => `import type { ${[...list].join(', ')} } from '${module}';`)
  writeFileSync(join(target, merged), [...lines, ...texts, 'export {};', ''].join('\n'))
}

/** @param {ts.Statement} statement */
function moduleOf(statement) {
  const isListed = ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)
  const specifier = isListed ? statement.moduleSpecifier : undefined
  return specifier && ts.isStringLiteral(specifier) ? specifier : undefined
}

/** @param {ts.Statement} statement @param {ts.StringLiteral} module @param {string} specifier */
function withModule(statement, module, specifier) {
  const text = statement.getText()
  const start = module.getStart() - statement.getStart()
  return `${text.slice(0, start)}'${specifier}'${text.slice(start + module.getWidth())}`
}

/** The names that a statement imports, or exports again. @param {ts.Statement} statement */
function importedNames(statement) {
  const clause = ts.isImportDeclaration(statement)
    ? statement.importClause?.namedBindings
    : ts.isExportDeclaration(statement) && statement.exportClause
  const isNamed = clause && (ts.isNamedImports(clause) || ts.isNamedExports(clause))
  if (!isNamed || clause.elements.some(({ propertyName }) => propertyName)) {
    throw new Error(
      `${statement.getSourceFile().fileName} imports or exports a name as another one: ${statement.getText()}`,
    )
  }
  return clause.elements.map(({ name }) => name.text)
}

/** @param {ts.Statement} statement @returns {string[]} */
function declaredNames(statement) {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.getText())
  const { name } = /** @type {{ name?: ts.Node }} */ (/** @type {unknown} */ (statement))
  return name && ts.isIdentifier(name) ? [name.text] : []
}

/** A type such as `import('./a.ts').A` would have to be moved as well. None of the sources causes one. @param {ts.Node} node */
function refuseImportTypes(node) {
  if (ts.isImportTypeNode(node)) throw new Error(`${node.getSourceFile().fileName} has ${node.getText()}.`)
  ts.forEachChild(node, refuseImportTypes)
}

/** Returns whether the folder itself is left. @param {string} folder @returns {boolean} */
function removeEmptyFolders(folder) {
  const left = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => !entry.isDirectory() || removeEmptyFolders(join(folder, entry.name)),
  )
  if (left.length === 0) rmdirSync(folder)
  return left.length > 0
}
