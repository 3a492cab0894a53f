import ts from 'typescript'

/** A text in a source file, and its line. The gaps of a template are replaced by an ellipsis. */
export interface TextLiteral {
  readonly line: number
  readonly text: string
}

/** The names in a test file that a failing run may print. */
export interface TestNames {
  /** The titles of tests: of `test` and `it`, and of their variants such as `test.each(...)`. */
  readonly titles: readonly TextLiteral[]
  /** The titles of suites, the names of mutants and their checks, and names that are keys of an object. */
  readonly others: readonly TextLiteral[]
}

/** Returns every string and template of a source file that contains a space. */
export function textsIn(path: string, source: string): TextLiteral[] {
  const texts: TextLiteral[] = []
  visitTexts(path, source, ({ line, text }) => {
    if (text.includes(' ')) texts.push({ line, text })
  })
  return texts
}

const namingKeys = /^(?:name|caughtBy)$/

export function testNamesIn(path: string, source: string): TestNames {
  const [titles, others]: [TextLiteral[], TextLiteral[]] = [[], []]
  visitTexts(path, source, (literal, node, parent) => {
    if (ts.isCallExpression(parent) && node !== parent.expression) {
      const callee = calleeOf(parent)
      if (callee === 'test' || callee === 'it') titles.push(literal)
      else if (callee.startsWith('describe')) others.push(literal)
    } else if (ts.isMethodDeclaration(parent)) {
      others.push(literal)
    } else if (ts.isPropertyAssignment(parent)) {
      const isNamed = ts.isIdentifier(parent.name) && namingKeys.test(parent.name.text)
      if (node === parent.name || isNamed) others.push(literal)
    }
  })
  return { titles, others }
}

/** Returns the first name of a call, such as `test` for `test.skipIf(windows).each(rows)(...)`. */
function calleeOf(call: ts.CallExpression): string {
  let callee: ts.Expression = call
  while (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) callee = callee.expression
  return ts.isIdentifier(callee) ? callee.text : ''
}

function visitTexts(
  path: string,
  source: string,
  visit: (literal: TextLiteral, node: ts.Node, parent: ts.Node) => void,
): void {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, false)
  const descend = (node: ts.Node, parent: ts.Node): void => {
    const text = textOf(node)
    if (text !== undefined) {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart(file))
      visit({ line: line + 1, text }, node, parent)
    }
    ts.forEachChild(node, (child) => descend(child, node))
  }
  descend(file, file)
}

function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text
  if (!ts.isTemplateExpression(node)) return undefined
  return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join('')
}
