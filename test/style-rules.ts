import ts from 'typescript'

/** A violation of a rule, and its line. */
export interface Finding {
  readonly line: number
  readonly what: string
}

const timeAndChance = new Set([
  'Date.now',
  'Math.random',
  'performance.now',
  'process.hrtime',
  'process.uptime',
  'AbortSignal.timeout',
])
const timers = new Set(['setTimeout', 'setInterval'])
const timerModules = /^(node:)?timers(\/promises)?$/
const chance = new Set(['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues'])

/** Finds uses of real time and randomness, which are allowed only in `clock.ts`. */
export function findTimeAndChance(text: string, path?: string): Finding[] {
  return find(text, path, (node) => {
    if (ts.isPropertyAccessExpression(node)) {
      const name = node.getText().replace(/^globalThis\./, '')
      return timeAndChance.has(name) ? name : undefined
    }
    if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && !node.arguments?.length) return 'new Date()'
    if (ts.isIdentifier(node) && (timers.has(node.text) || chance.has(node.text))) return node.text
    if (ts.isStringLiteral(node) && timerModules.test(node.text) && isModuleName(node)) return node.text
    return undefined
  })
}

/** Finds places where the type checker is disabled. */
export function findUnchecked(text: string, path?: string): Finding[] {
  const comments = linesOf(text).flatMap(([line, content]) => {
    const directive = /@ts-(ignore|nocheck|expect-error)/.exec(content)
    return directive ? [{ line, what: directive[0] }] : []
  })
  return [...find(text, path, (node) => (node.kind === ts.SyntaxKind.AnyKeyword ? 'any' : undefined)), ...comments]
}

const leaks = [
  // Hosts that serve packages. Readers configure their own.
  /https?:\/\/[^/\s"']*(registry|npm|pypi|mirror|artifactory|nexus)[^/\s"']*\.[a-z]{2,}/i,
  /\bregistry\.[\w-]+\.[a-z]{2,}\b/i,
  // Folders that exist only on one machine.
  /(^|[\s"'`(=:[,]|file:\/\/)\/(home|Users|root|work|tmp|private|mnt)\/[\w.-]+/,
  /\b[A-Z]:\\Users\\/i,
]

/** Finds package hosts and paths of one machine. */
export function findLeaks(text: string): Finding[] {
  return linesOf(text).flatMap(([line, content]) =>
    leaks.flatMap((pattern) => {
      const leak = pattern.exec(content)
      return leak ? [{ line, what: leak[0].trim() }] : []
    }),
  )
}

const sleeps = /^(?:globalThis\.)?(?:setTimeout|setInterval|delay)$/
const starters = /^(?:(?:spawn|execFile|exec)(?:Sync)?|promisify\((?:execFile|exec)\))$/

/** The longest that a quick test may wait in real time. */
export const quickMs = 200

/** Finds waits in real time that are too long for a quick test, if they are numeric literals. */
export function findLongWaits(text: string): Finding[] {
  return find(text, undefined, (node) => {
    if (!ts.isCallExpression(node)) return undefined
    const callee = node.expression.getText()
    const longest = Math.max(...node.arguments.map(numberOf))
    return sleeps.test(callee) && longest > quickMs ? `${callee} of ${longest} ms` : undefined
  })
}

/** Finds programs that are started by a literal name. */
export function findPrograms(text: string): Finding[] {
  return find(text, undefined, (node) => {
    if (!ts.isCallExpression(node)) return undefined
    const [program] = node.arguments
    const callee = node.expression.getText()
    const starts = starters.test(callee)
    return starts && program && ts.isStringLiteral(program) ? program.text : undefined
  })
}

/** Returns the value of a number or a product of numbers, or 0 if it is not known here. */
function numberOf(node: ts.Expression): number {
  if (ts.isNumericLiteral(node)) return Number(node.text)
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.AsteriskToken) return 0
  return numberOf(node.left) * numberOf(node.right)
}

/** Finds the modules that a file imports or re-exports. */
export function findImports(
  text: string,
  path?: string,
): (Finding & { readonly dynamic: boolean; readonly erased: boolean })[] {
  return find(
    text,
    path,
    (node) => (ts.isStringLiteral(node) && isModuleName(node) ? node.text : undefined),
    ({ parent }) => ({
      dynamic: ts.isCallExpression(parent),
      /** Whether the import does not exist at run time. */
      erased:
        ts.isLiteralTypeNode(parent) ||
        (ts.isImportDeclaration(parent) && parent.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword) ||
        (ts.isExportDeclaration(parent) && parent.isTypeOnly),
    }),
  )
}

function isModuleName(node: ts.StringLiteral): boolean {
  const { parent } = node
  return (
    ts.isImportDeclaration(parent) ||
    ts.isExportDeclaration(parent) ||
    (ts.isLiteralTypeNode(parent) && ts.isImportTypeNode(parent.parent)) ||
    (ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword)
  )
}

type Look = (node: ts.Node) => string | undefined

function find(text: string, path: string | undefined, look: Look): Finding[]
function find<T>(text: string, path: string | undefined, look: Look, more: (node: ts.Node) => T): (Finding & T)[]
function find(text: string, path = 'source.ts', look: Look, more?: (node: ts.Node) => object): Finding[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const findings: Finding[] = []
  const visit = (node: ts.Node): void => {
    const what = look(node)
    const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1
    if (what !== undefined) findings.push({ line, what, ...more?.(node) })
    ts.forEachChild(node, visit)
  }
  visit(source)
  return findings
}

function linesOf(text: string): [line: number, content: string][] {
  return text.split('\n').map((content, index) => [index + 1, content])
}
