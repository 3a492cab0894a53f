/**
 * Colors code. The declarations of highlight.js would bring the types of browsers into every file that is checked with
 * this one, so the few parts that are used have their types here.
 */
import { createRequire } from 'node:module'

/** @typedef {(highlighter: unknown) => object} Syntax */

const load = createRequire(import.meta.url)
/**
 * @type {{
 *   registerLanguage(name: string, syntax: Syntax): void
 *   highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { value: string }
 * }}
 */
const highlighter = load('highlight.js/lib/core')

/** The languages of the pages, each with its name in a tab. Others are shown without colors. */
const languages = {
  sh: { name: 'Shell', syntax: 'bash' },
  dockerfile: { name: 'Dockerfile', syntax: 'dockerfile' },
  go: { name: 'Go', syntax: 'go' },
  ini: { name: 'INI', syntax: 'ini' },
  js: { name: 'JavaScript', syntax: 'javascript' },
  javascript: { name: 'JavaScript', syntax: 'javascript' },
  json: { name: 'JSON', syntax: 'json' },
  nginx: { name: 'nginx', syntax: 'nginx' },
  python: { name: 'Python', syntax: 'python' },
  sql: { name: 'SQL', syntax: 'sql' },
  ts: { name: 'TypeScript', syntax: 'typescript' },
  yaml: { name: 'YAML', syntax: 'yaml' },
}

for (const [language, { syntax }] of Object.entries(languages))
  highlighter.registerLanguage(language, load(`highlight.js/lib/languages/${syntax}`))

/** @param {string} language */
export function nameOfLanguage(language) {
  return languages[/** @type {keyof typeof languages} */ (language)]?.name ?? 'Text'
}

/**
 * Returns code as HTML with classes for its colors.
 * @param {string} code
 * @param {string} language
 */
export function highlight(code, language) {
  if (!Object.hasOwn(languages, language)) return escapeHtml(code)
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value
}

/** @param {string} text */
export function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
