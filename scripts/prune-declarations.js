// Removes declarations that no entry point reaches. Nobody can import them.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'

/**
 * A name of a file: the statements that declare it, or where it is imported or exported from.
 *
 * @typedef {{ node: ts.Node, from?: string, name?: string }} Binding
 */

/**
 * Keeps each exported name of the entry points, everything that its declaration refers to, and their comments.
 * @param {string} target
 * @param {string[]} entries
 * @param {(entry: string, name: string) => boolean} [isExported] whether anybody may import this name from this entry
 */
export function pruneDeclarations(target, entries, isExported = () => true) {
  /** @type {Map<string, DeclarationFile>} */
  const files = new Map()
  const open = (/** @type {string} */ path) => {
    const known = files.get(path) ?? new DeclarationFile(path)
    files.set(path, known)
    return known
  }
  const reach = (/** @type {string} */ path, /** @type {string} */ name) => {
    for (const reached of open(path).keep(name)) reach(reached.path, reached.name)
  }
  for (const entry of entries) {
    const path = join(target, `${entry}.d.ts`)
    if (!existsSync(path)) continue
    for (const name of open(path).exportedNames.filter((each) => isExported(entry, each))) reach(path, name)
  }
  const entryFiles = new Set(entries.map((entry) => join(target, `${entry}.d.ts`)))
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue
    const path = join(target, name)
    const kept = files.get(path)?.text() ?? ''
    // An entry point that exports nothing is still a module.
    if (kept === '' && !entryFiles.has(path)) rmSync(path)
    else writeFileSync(path, kept || 'export {};\n')
  }
}

class DeclarationFile {
  #path
  #source
  /** @type {Map<string, Binding[]>} */
  #bindings = new Map()
  /** @type {Map<string, Binding[]>} */
  #exports = new Map()
  /** @type {Set<string>} */
  #done = new Set()
  /** @type {Set<ts.Node>} */
  #kept = new Set()

  /** @param {string} path */
  constructor(path) {
    this.#path = path
    this.#source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)
    for (const statement of this.#source.statements) this.#bind(statement)
  }

  get exportedNames() {
    return [...this.#exports.keys()]
  }

  /**
   * Keeps a name, and everything in this file that it refers to. Returns the names of other files that are reached.
   * @param {string} name
   * @returns {{ path: string, name: string }[]}
   */
  keep(name) {
    if (this.#done.has(name)) return []
    this.#done.add(name)
    const bindings = [...(this.#exports.get(name) ?? []), ...(this.#bindings.get(name) ?? [])]
    return bindings.flatMap(({ node, from, name: original = name }) => {
      this.#kept.add(node)
      if (from !== undefined) return [{ path: from, name: original }]
      const { names, imported } = referencesOf(node)
      return [
        ...[...names].flatMap((each) => this.keep(each)),
        ...imported.flatMap(({ specifier, name: each }) => {
          const path = this.#resolve(specifier)
          return path === undefined ? [] : [{ path, name: each }]
        }),
      ]
    })
  }

  /** Returns the text without the parts that are not kept. */
  text() {
    const parts = this.#source.statements.map((statement) => this.#textOf(statement))
    if (parts.every((part) => part === '')) return ''
    // With this line a file exports only the names that say so.
    const isClosed = this.#source.statements.some((statement) => specifiersOf(statement)?.length === 0)
    return `${parts.join('').trim()}\n${isClosed ? 'export {};\n' : ''}`
  }

  /** @param {ts.Statement} statement */
  #textOf(statement) {
    const specifiers = specifiersOf(statement)
    if (!specifiers) return this.#kept.has(statement) ? statement.getFullText() : ''
    const kept = specifiers.filter((each) => this.#kept.has(each))
    if (kept.length === 0) return ''
    const text = statement.getFullText()
    if (kept.length === specifiers.length) return text
    return text.replace(/\{[^}]*\}/, `{ ${kept.map((each) => each.getText()).join(', ')} }`)
  }

  /** @param {ts.Statement} statement */
  #bind(statement) {
    const specifiers = specifiersOf(statement)
    if (specifiers) {
      const from = this.#resolve(moduleOf(statement))
      const isImport = ts.isImportDeclaration(statement)
      for (const node of specifiers) {
        const original = (node.propertyName ?? node.name).text
        const binding = from === undefined ? { node } : { node, from, name: original }
        add(isImport ? this.#bindings : this.#exports, node.name.text, binding)
      }
      return
    }
    const names = declaredNames(statement)
    if (names.length === 0)
      throw new Error(`${this.#path} has a statement that cannot be pruned: ${statement.getText()}`)
    for (const name of names) {
      add(this.#bindings, name, { node: statement })
      if (isExported(statement)) add(this.#exports, name, { node: statement })
    }
  }

  /** The declarations of a relative module. Undefined for a package. @param {string | undefined} specifier */
  #resolve(specifier) {
    if (!specifier?.startsWith('.')) return undefined
    return join(dirname(this.#path), specifier.replace(/\.[jt]s$/, '.d.ts'))
  }
}

/**
 * The names that an import or an export lists. Undefined for every other statement.
 * @param {ts.Statement} statement
 */
function specifiersOf(statement) {
  if (ts.isExportDeclaration(statement)) {
    const { exportClause } = statement
    return exportClause && ts.isNamedExports(exportClause) ? [...exportClause.elements] : undefined
  }
  if (!ts.isImportDeclaration(statement)) return undefined
  const named = statement.importClause?.namedBindings
  return named && ts.isNamedImports(named) && !statement.importClause?.name ? [...named.elements] : undefined
}

/** @param {ts.Statement} statement */
function moduleOf(statement) {
  const isListed = ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)
  const specifier = isListed ? statement.moduleSpecifier : undefined
  return specifier && ts.isStringLiteral(specifier) ? specifier.text : undefined
}

/** @param {ts.Statement} statement @returns {string[]} */
function declaredNames(statement) {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []))
  }
  if (ts.isImportDeclaration(statement)) {
    const { name, namedBindings } = statement.importClause ?? {}
    const space = namedBindings && ts.isNamespaceImport(namedBindings) ? [namedBindings.name.text] : []
    return [...(name ? [name.text] : []), ...space]
  }
  const { name } = /** @type {{ name?: ts.Node }} */ (/** @type {unknown} */ (statement))
  return name && ts.isIdentifier(name) ? [name.text] : []
}

/** @param {ts.Statement} statement */
function isExported(statement) {
  if (ts.isExportDeclaration(statement)) return true
  return ts.canHaveModifiers(statement) && !!ts.getModifiers(statement)?.some(isExportKeyword)
}

/** @param {ts.Modifier} modifier */
function isExportKeyword({ kind }) {
  return kind === ts.SyntaxKind.ExportKeyword
}

/**
 * The names that a declaration refers to. A name that only looks like a reference, such as that of a type parameter, is
 * also kept.
 * @param {ts.Node} declaration
 */
function referencesOf(declaration) {
  /** @type {Set<string>} */
  const names = new Set()
  /** @type {{ specifier: string, name: string }[]} */
  const imported = []
  const visit = (/** @type {ts.Node} */ node) => {
    if (ts.isTypeReferenceNode(node)) names.add(firstName(node.typeName))
    else if (ts.isTypeQueryNode(node) && !ts.isImportTypeNode(node.exprName)) names.add(firstName(node.exprName))
    else if (ts.isExpressionWithTypeArguments(node) || ts.isComputedPropertyName(node)) {
      names.add(firstName(node.expression))
    } else if (ts.isExportSpecifier(node)) names.add((node.propertyName ?? node.name).text)
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) && node.qualifier) {
      const { literal } = node.argument
      if (ts.isStringLiteral(literal)) imported.push({ specifier: literal.text, name: firstName(node.qualifier) })
    }
    ts.forEachChild(node, visit)
  }
  visit(declaration)
  return { names, imported }
}

/** The first name of `a.b.c`. @param {ts.Node} node @returns {string} */
function firstName(node) {
  if (ts.isIdentifier(node)) return node.text
  if (ts.isQualifiedName(node)) return firstName(node.left)
  return ts.isPropertyAccessExpression(node) ? firstName(node.expression) : ''
}

/** @param {Map<string, Binding[]>} bindings @param {string} name @param {Binding} binding */
function add(bindings, name, binding) {
  bindings.set(name, [...(bindings.get(name) ?? []), binding])
}
