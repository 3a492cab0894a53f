// Puts each statement on its own line, so that a stack trace names one statement and Node prints only that.
import { parseAst } from 'rolldown/parseAst'

/** @type {import('rolldown').Plugin} */
export const lineBreaks = {
  name: 'line-breaks',
  generateBundle(_, files) {
    for (const file of Object.values(files)) if (file.type === 'chunk') file.code = withLineBreaks(file.code)
  },
}

/** @param {string} code without line breaks between statements */
export function withLineBreaks(code) {
  /** @type {number[]} */
  const starts = []
  visit(parseAst(code), (statement) => starts.push(statement.start))
  let end = code.length
  /** @type {string[]} */
  const lines = []
  for (const start of starts.toSorted((one, other) => other - one)) {
    lines.unshift(code.slice(start, end))
    end = start
  }
  return [code.slice(0, end), ...lines].filter(Boolean).join('\n')
}

/**
 * Calls back for each statement in a list, and for each member of a class.
 * @param {unknown} node
 * @param {(statement: { start: number }) => void} onStatement
 */
function visit(node, onStatement) {
  if (typeof node !== 'object' || node === null) return
  for (const [key, value] of Object.entries(node)) {
    const isList = Array.isArray(value) && (key === 'body' || (key === 'consequent' && 'test' in node))
    if (isList) for (const statement of value) onStatement(statement)
    visit(value, onStatement)
  }
}
