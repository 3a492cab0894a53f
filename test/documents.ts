import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { listFiles, root } from './source-files.ts'

export { root }

/** A fenced code block in a document. */
export interface Block {
  readonly document: string
  readonly line: number
  /** The words after the fence: the language, and possibly `run`. */
  readonly info: readonly string[]
  readonly code: string
}

/** Returns every Markdown document of the project, relative to its root. */
export function listDocuments(): string[] {
  return listFiles().filter((path) => path.endsWith('.md'))
}

export function readDocument(document: string): string {
  return readFileSync(join(root, document), 'utf8')
}

/** Returns the fenced blocks of a document. */
export function findBlocks(document: string, text: string): Block[] {
  const blocks: Block[] = []
  let open: { fence: string; line: number; info: string[]; code: string[] } | undefined
  for (const [index, content] of text.split('\n').entries()) {
    const fence = /^\s*(`{3,}|~{3,})(.*)$/.exec(content)
    if (!open) {
      if (fence?.[1]) open = { fence: fence[1], line: index + 2, info: words(fence[2]), code: [] }
    } else if (fence?.[1]?.startsWith(open.fence) && fence[2]?.trim() === '') {
      blocks.push({ document, line: open.line, info: open.info, code: open.code.join('\n') })
      open = undefined
    } else {
      open.code.push(content)
    }
  }
  if (open) throw new Error(`${document}:${open.line} opens a code block that is never closed.`)
  return blocks
}

/** Returns the links of a document that point to a missing file or to a heading that the file does not have. */
export function findDeadLinks(document: string, text: string): string[] {
  const prose = withoutCode(text)
  const targets = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => {
    if (/^[a-z]+:/i.test(target)) return false
    const [path = '', anchor] = target.split('#')
    const file = normalize(join(dirname(document), path))
    if (path !== '' && !existsSync(join(root, file))) return true
    if (anchor === undefined) return false
    return !headingAnchors(path === '' ? text : readDocument(file)).includes(anchor)
  })
}

/** Returns the npm scripts that a document tells the reader to run. */
export function findScripts(text: string): string[] {
  const run = [...text.matchAll(/\bnpm run ([a-z][\w:-]*)/g)].map((match) => match[1] ?? '')
  const short = [...text.matchAll(/\bnpm (start|test)\b/g)].map((match) => match[1] ?? '')
  return [...new Set([...run, ...short])]
}

/** Returns a document without its fenced blocks and inline code. */
export function withoutCode(text: string): string {
  return text.replaceAll(/^\s*(`{3,})[^\n]*\n[\s\S]*?^\s*\1\s*$/gm, '').replaceAll(/`[^`\n]*`/g, '')
}

function headingAnchors(text: string): string[] {
  const headings = [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.+)$/gm)]
  return headings.map((match) =>
    (match[1] ?? '')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  )
}

function words(text = ''): string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}
