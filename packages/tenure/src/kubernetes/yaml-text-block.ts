import { isBlank, type YamlReader } from './yaml-reader.ts'

/** Reads a text whose lines are kept (`|`) or folded (`>`), below something that is indented by `parent`. */
export function readTextBlock(reader: YamlReader, parent: number): string {
  const folded = reader.is('>')
  reader.at++
  const chomp = reader.is('-') || reader.is('+') ? reader.char : ''
  reader.at += chomp.length
  if (/\d/.test(reader.char)) reader.fail('a text tells its own indentation')
  reader.endLine()
  const lines = readLines(reader, parent)
  let count = lines.length
  while (count > 0 && lines[count - 1] === '') count--
  const body = folded ? fold(lines.slice(0, count)) : lines.slice(0, count).join('\n')
  if (chomp === '+') return body + '\n'.repeat(lines.length - count + (count > 0 ? 1 : 0))
  return chomp === '-' || count === 0 ? body : `${body}\n`
}

/** The first line with content tells the indentation of all. */
function readLines(reader: YamlReader, parent: number): string[] {
  const lines: string[] = []
  let indent: number | undefined
  let deepestEmpty = 0
  while (!reader.ended) {
    const { at, lineStart } = reader
    reader.lineStart = ++reader.at
    reader.skipSpaces(indent)
    if (reader.ended) break
    if (reader.is('\n')) {
      lines.push('')
      deepestEmpty = Math.max(deepestEmpty, reader.column)
      continue
    }
    if (reader.column <= (indent === undefined ? parent : indent - 1)) {
      if (reader.is('\t')) reader.fail('a tab stands in the indentation')
      Object.assign(reader, { at, lineStart })
      break
    }
    if (indent === undefined && deepestEmpty > reader.column) reader.fail('an empty line above is indented deeper')
    indent ??= reader.column
    const from = reader.at
    reader.skipLine()
    lines.push(reader.text.slice(from, reader.at))
  }
  return lines
}

/** One line break becomes a blank, unless a line beside it is indented deeper; of more than one the first goes. */
function fold(lines: readonly string[]): string {
  let text = ''
  let breaks = 0
  let previous: string | undefined
  for (const line of lines) {
    if (line !== '') {
      const keeps = previous === undefined || isBlank(previous.charAt(0)) || isBlank(line.charAt(0))
      if (breaks > 0) text += keeps ? '\n'.repeat(breaks) : breaks === 1 ? ' ' : '\n'.repeat(breaks - 1)
      text += line
      breaks = 0
      previous = line
    }
    breaks++
  }
  return text
}
