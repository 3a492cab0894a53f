/**
 * The API reference: a page for each entry point of the published packages, from the declarations that the packages
 * contain and the comments in them.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { anchorOf, renderMarkdown } from './markdown.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * @typedef {import('./markdown.js').Page} Page
 * @typedef {{ entry: string, file: string, about: string, symbols: { name: string, symbol: ts.Symbol, anchor: string }[] }} Entry
 * @typedef {(name: string) => string | undefined} Find Returns where the reference describes a name.
 */

/** Entry points of the published packages, except those for Tenure's own packages. */
function entryFiles() {
  return readdirSync(join(root, 'packages')).flatMap((folder) => {
    /** @type {{ name: string, private?: boolean, exports?: Record<string, string | { types: string }> }} */
    const manifest = JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8'))
    if (manifest.private) return []
    return Object.entries(manifest.exports ?? {}).flatMap(([path, target]) => {
      const entry = posix.join(manifest.name, path)
      if (typeof target === 'string' || /\/internal(?:\/|$)/.test(entry)) return []
      return [{ entry, file: join(root, 'packages', folder, target.types) }]
    })
  })
}

/** The library comes first, then its parts, then the other packages. */
function rank(/** @type {string} */ entry) {
  if (entry === 'tenure') return 0
  if (entry.startsWith('tenure/stores')) return 2
  return entry.startsWith('tenure/') ? 1 : 3
}

/** Returns the pages of the reference, and what finds a name of an entry point in them, from `docs/reference`. */
export function referencePages() {
  const files = entryFiles().toSorted((a, b) => rank(a.entry) - rank(b.entry))
  const program = ts.createProgram(
    files.map(({ file }) => file),
    { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ESNext, noEmit: true, skipLibCheck: true },
  )
  const checker = program.getTypeChecker()
  const entries = files.map(({ entry, file }) => readEntry(program, checker, entry, file))
  /** @type {Page[]} */
  const pages = entries.map((entry) => pageOfEntry(entry, entries, checker))
  return {
    pages,
    /** @param {string} name @param {string} section */
    find(name, section) {
      const entry = entries.find((each) => each.entry === section)
      const found = entry?.symbols.find((symbol) => symbol.name === name)
      return entry && found && posix.join('../..', `${pathOf(entry.entry)}#${found.anchor}`)
    },
  }
}

/**
 * @param {ts.Program} program
 * @param {ts.TypeChecker} checker
 * @param {string} entry
 * @param {string} file
 * @returns {Entry}
 */
function readEntry(program, checker, entry, file) {
  const source = program.getSourceFile(file)
  const module = source && checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`${file} exports nothing. Run npm run build first.`)
  const [, about = ''] = /\/\*\*([^]*?)(?:\n\s*\*\s*@module\s*)?\*\//.exec(source.text) ?? []
  const seen = new Set([anchorOf(entry)])
  const symbols = checker
    .getExportsOfModule(module)
    .map((exported) => ({
      name: exported.name,
      symbol: exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported,
    }))
    .toSorted((a, b) => Number(isType(a.symbol)) - Number(isType(b.symbol)) || a.name.localeCompare(b.name, 'en'))
    .map(({ name, symbol }) => {
      const anchor = anchorOf(name)
      const unique = seen.has(anchor) ? `${anchor}-1` : anchor
      seen.add(anchor)
      return { name, symbol, anchor: unique }
    })
  return { entry, file, about: about.replaceAll(/^\s*\* ?/gm, '').trim(), symbols }
}

/** @param {ts.Symbol} symbol */
function isType({ flags }) {
  return (flags & ts.SymbolFlags.Value) === 0
}

/** @param {string} entry */
function pathOf(entry) {
  return `api/${entry.replace('@', '')}.html`
}

/**
 * @param {Entry} entry
 * @param {readonly Entry[]} entries
 * @param {ts.TypeChecker} checker
 * @returns {Page}
 */
function pageOfEntry(entry, entries, checker) {
  const path = pathOf(entry.entry)
  /** @type {Find} */
  const find = (name) => {
    const all = [entry, ...entries].map((each) => ({
      each,
      found: each.symbols.find((symbol) => symbol.name === name),
    }))
    const first = all.find(({ found }) => found !== undefined)
    if (!first?.found) return undefined
    return first.each === entry
      ? `#${first.found.anchor}`
      : `${posix.relative(posix.dirname(path), pathOf(first.each.entry))}#${first.found.anchor}`
  }
  const rest = entry.symbols.map(({ name, symbol }) => describe(name, symbol, checker, find))
  const text = `# ${entry.entry}\n\n${linked(entry.about, find)}\n\n\`\`\`ts\nimport { … } from '${entry.entry}'\n\`\`\`\n\n${rest.join('\n')}`
  const rendered = renderMarkdown(text, { link: (href) => ({ href }) })
  return { ...rendered, html: linkTypes(rendered.html, find), path }
}

/**
 * Returns the Markdown of one exported name.
 * @param {string} name
 * @param {ts.Symbol} symbol
 * @param {ts.TypeChecker} checker
 * @param {Find} find
 */
function describe(name, symbol, checker, find) {
  const comment = linked(ts.displayPartsToString(symbol.getDocumentationComment(checker)), find)
  const examples = symbol.getJsDocTags(checker).filter((tag) => tag.name === 'example')
  const declared = (symbol.declarations ?? []).map(printed).join('\n')
  const members = (symbol.declarations ?? []).flatMap((declaration) => membersOf(declaration, checker, find))
  return [
    `## ${name}\n`,
    `${comment}\n`,
    ...examples.map((tag) => `\`\`\`ts\n${ts.displayPartsToString(tag.text).trim()}\n\`\`\`\n`),
    `\`\`\`ts\n${declared}\n\`\`\`\n`,
    ...(members.length > 0 ? [`| member | meaning |\n|---|---|\n${members.join('\n')}\n`] : []),
  ].join('\n')
}

const printer = ts.createPrinter({ removeComments: true })

/**
 * Returns a declaration without comments and without what only the package itself uses.
 * @param {ts.Declaration} declaration
 */
function printed(declaration) {
  const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
  const shown = ts.isClassDeclaration(statement)
    ? ts.factory.updateClassDeclaration(
        statement,
        statement.modifiers,
        statement.name,
        statement.typeParameters,
        statement.heritageClauses,
        statement.members.filter((member) => !isPrivate(member)),
      )
    : statement
  return printer
    .printNode(ts.EmitHint.Unspecified, shown, declaration.getSourceFile())
    .replace(/^(?:export )?(?:declare )?/, '')
    .replaceAll(/^( {4})+/gm, (indent) => ' '.repeat(indent.length / 2))
}

/** @param {ts.ClassElement} member */
function isPrivate(member) {
  const isHidden =
    ts.canHaveModifiers(member) && member.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword)
  return isHidden === true || (member.name !== undefined && ts.isPrivateIdentifier(member.name))
}

/**
 * Returns a row for each member with a comment.
 * @param {ts.Declaration} declaration
 * @param {ts.TypeChecker} checker
 * @param {Find} find
 */
function membersOf(declaration, checker, find) {
  const body = ts.isTypeAliasDeclaration(declaration) ? declaration.type : declaration
  const hasMembers = ts.isInterfaceDeclaration(body) || ts.isClassDeclaration(body) || ts.isTypeLiteralNode(body)
  if (!hasMembers) return []
  return [...body.members].flatMap((member) => {
    const name = member.name && !ts.isPrivateIdentifier(member.name) ? member.name.getText() : undefined
    const symbol = member.name && checker.getSymbolAtLocation(member.name)
    const comment = ts.displayPartsToString(symbol?.getDocumentationComment(checker))
    if (name === undefined || comment === '') return []
    const cell = linked(comment, find).replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
    return [`| \`${name}\` | ${cell} |`]
  })
}

/**
 * Replaces the links of a comment with links of Markdown.
 * @param {string} comment
 * @param {Find} find
 */
function linked(comment, find) {
  return comment.replaceAll(/\{@link ([^}\s]+) ?\}/g, (_, /** @type {string} */ name) => {
    const href = find(name.split('.')[0] ?? '')
    return href === undefined ? `\`${name}\`` : `[\`${name}\`](${href})`
  })
}

/**
 * Links the types in code to where they are described.
 * @param {string} html
 * @param {Find} find
 */
function linkTypes(html, find) {
  return html.replaceAll(/<pre[^>]*><code>[^]*?<\/code><\/pre>/g, (block) =>
    block.replaceAll(/<[^>]+>|&\w+;|\b[A-Z]\w+\b/g, (token) => {
      const href = /^[A-Z]/.test(token) ? find(token) : undefined
      return href === undefined ? token : `<a href="${href}">${token}</a>`
    }),
  )
}
