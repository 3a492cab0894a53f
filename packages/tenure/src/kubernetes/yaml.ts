import { isBlank, isBlankOrEnd, YamlReader } from './yaml-reader.ts'
import { readTextBlock } from './yaml-text-block.ts'

export { YamlError } from './yaml-reader.ts'

/** What a document holds. Numbers and dates stay text. */
export type YamlValue = string | boolean | null | readonly YamlValue[] | YamlMap

/** A mapping. No key of it can be mistaken for a member of an object. */
export type YamlMap = ReadonlyMap<string, YamlValue>

const deepest = 64

/**
 * Reads the part of YAML that kubeconfigs are written in, JSON included. What means something else, or different
 * things to different readers, is refused with its line: anchors, tags, several documents, tabs as indentation, keys
 * that are there twice.
 */
export function parseYaml(text: string): YamlValue {
  return new Parser(text).document()
}

/**
 * Each method begins at the first character of what it reads. Those for block style end at the first character of the
 * next line with content, whose column is its indentation.
 */
class Parser {
  readonly #in: YamlReader
  #depth = 0

  constructor(text: string) {
    this.#in = new YamlReader(text)
  }

  document(): YamlValue {
    this.#toFirstLine()
    if (this.#in.ended) return null
    const value = this.#block(-1)
    if (!this.#in.ended) this.#in.fail('the indentation fits nothing above')
    return value
  }

  #toFirstLine(): void {
    const reader = this.#in
    let marked = false
    while (!reader.ended) {
      if (reader.atMarker()) {
        if (marked || reader.is('.')) reader.fail('it has more than one document, or the end of one')
        marked = true
        reader.at += 3
        reader.endLine()
      }
      reader.skipSpaces()
      reader.passIndentation()
      if (reader.is('#')) reader.skipLine()
      if (!reader.atLineEnd()) return
      // Not by nextLine(), which refuses the marker.
      if (!reader.ended) reader.lineStart = ++reader.at
    }
  }

  /** A value below something that is indented by `parent`. */
  #block(parent: number): YamlValue {
    const { column } = this.#in
    if (this.#atDash()) return this.#sequence(column)
    const key = this.#key()
    if (key !== undefined) return this.#mapping(column, key)
    if (parent < 0 && !'{['.includes(this.#in.char)) this.#in.fail('"key: value" is expected')
    return this.#inline(parent)
  }

  #sequence(column: number): YamlValue[] {
    this.#enter()
    const items: YamlValue[] = []
    while (!this.#in.ended && this.#in.column === column && this.#atDash()) {
      this.#in.at++
      items.push(this.#valueOf(column, 'item'))
    }
    this.#leave(column)
    return items
  }

  #mapping(column: number, firstKey: string): YamlMap {
    this.#enter()
    const map = new Map<string, YamlValue>()
    for (let key: string | undefined = firstKey; key !== undefined;) {
      this.#checkKey(map, key)
      map.set(key, this.#valueOf(column, 'key'))
      if (this.#in.ended || this.#in.column !== column) break
      key = this.#key() ?? this.#in.fail('"key: value" is expected')
    }
    this.#leave(column)
    return map
  }

  /** What follows a dash or a key's colon that is indented by `column`. */
  #valueOf(column: number, of: 'item' | 'key'): YamlValue {
    const reader = this.#in
    const before = reader.at
    reader.skipBlanks()
    if (of === 'item' && reader.text.slice(before, reader.at).includes('\t')) reader.fail('a tab follows a dash')
    if (reader.atLineEnd() || reader.char === '#') {
      reader.skipLine()
      reader.toContent()
      if (reader.ended) return null
      if (reader.column > column) return this.#block(column)
      return of === 'key' && reader.column === column && this.#atDash() ? this.#sequence(column) : null
    }
    if (reader.char === '|' || reader.char === '>') {
      const text = readTextBlock(reader, column)
      reader.toContent()
      return text
    }
    return of === 'item' ? this.#block(column) : this.#inline(column)
  }

  /** A key and its colon; undefined, and nothing read, if there is none in this line. */
  #key(): string | undefined {
    const reader = this.#in
    const { at, char } = reader
    let key: string | undefined
    if (char === '"' || char === "'") {
      key = reader.quoted()
      reader.skipBlanks()
    } else if (char !== '{' && char !== '[') {
      reader.checkPlainStart(false)
      const { end, by } = reader.plainEnd(at, false)
      if (by === 'colon') {
        key = reader.text.slice(at, end)
        if (key === '<<') reader.fail('it has a merge key, "<<"')
        reader.at = end
        reader.skipBlanks()
      }
    }
    if (key !== undefined && reader.char === ':' && isBlankOrEnd(reader.text.charAt(reader.at + 1))) {
      reader.at++
      return key
    }
    reader.at = at
    return undefined
  }

  #checkKey(map: YamlMap, key: string): void {
    if (map.has(key)) this.#in.fail('a key is there twice')
  }

  /** A scalar or a bracket, and the end of its last line. */
  #inline(parent: number): YamlValue {
    const reader = this.#in
    const value = this.#quotedOrBracket(parent) ?? { plain: this.#plain(parent) }
    reader.endLine()
    reader.toContent()
    return 'plain' in value ? resolve(value.plain) : value.read
  }

  #quotedOrBracket(parent: number): { readonly read: YamlValue } | undefined {
    const { char } = this.#in
    if (char === '"' || char === "'") return { read: this.#in.quoted(parent) ?? '' }
    if (char === '{') return { read: this.#flowMapping(parent) }
    return char === '[' ? { read: this.#flowSequence(parent) } : undefined
  }

  /** A scalar without quotes. It goes on in the lines below that are indented deeper than `parent`. */
  #plain(parent: number): string {
    const reader = this.#in
    reader.checkPlainStart(false)
    let value = this.#plainLine()
    for (;;) {
      const { at, lineStart } = reader
      if (reader.ended || reader.char !== '\n') return value
      let emptyLines = -1
      while (!reader.ended && reader.char === '\n') {
        reader.nextLine()
        reader.passIndentation()
        emptyLines++
      }
      if (reader.ended || reader.column <= parent || reader.is('#')) {
        Object.assign(reader, { at, lineStart })
        return value
      }
      value += emptyLines === 0 ? ' ' : '\n'.repeat(emptyLines)
      value += this.#plainLine()
    }
  }

  #plainLine(): string {
    const reader = this.#in
    const { end, by } = reader.plainEnd(reader.at, false)
    if (by === 'colon') reader.fail('a text without quotes has a colon and a blank', end)
    const line = reader.text.slice(reader.at, end)
    reader.at = end
    if (by === 'line') reader.skipBlanks()
    return line
  }

  #flowMapping(parent: number): YamlMap {
    const map = new Map<string, YamlValue>()
    this.#flow(parent, '}', () => {
      const reader = this.#in
      const isQuoted = reader.char === '"' || reader.char === "'"
      const key = isQuoted ? (reader.quoted() ?? reader.fail('a key has a line break')) : this.#flowPlain()
      if (key === '<<' && !isQuoted) reader.fail('it has a merge key, "<<"')
      this.#checkKey(map, key)
      this.#flowSpace(parent)
      if (reader.char !== ':') reader.fail('a key has no value')
      reader.at++
      if (!isQuoted && !isBlankOrEnd(reader.char) && !'[{'.includes(reader.char)) reader.fail('a key has no value')
      this.#flowSpace(parent)
      map.set(key, this.#flowValue(parent))
    })
    return map
  }

  #flowSequence(parent: number): YamlValue[] {
    const items: YamlValue[] = []
    this.#flow(parent, ']', () => items.push(this.#flowValue(parent)))
    return items
  }

  #flow(parent: number, closing: string, readEntry: () => void): void {
    const reader = this.#in
    const opened = reader.at
    this.#enter()
    reader.at++
    this.#flowSpace(parent)
    while (!reader.is(closing)) {
      if (reader.ended) reader.fail('a bracket is not closed', opened)
      readEntry()
      this.#flowSpace(parent)
      if (reader.ended || reader.is(closing)) continue
      if (!reader.is(',')) reader.fail(`"," or "${closing}" is expected`)
      reader.at++
      this.#flowSpace(parent)
    }
    reader.at++
    this.#depth--
  }

  #flowValue(parent: number): YamlValue {
    const value = this.#quotedOrBracket(parent)
    return value ? value.read : resolve(this.#flowPlain())
  }

  #flowPlain(): string {
    const reader = this.#in
    if (reader.atLineEnd()) reader.fail('a bracket is not closed')
    reader.checkPlainStart(true)
    const from = reader.at
    reader.at = reader.plainEnd(from, true).end
    return reader.text.slice(from, reader.at)
  }

  /** Blanks, comments and line breaks between brackets. */
  #flowSpace(parent: number): void {
    const reader = this.#in
    let separated = false
    for (;;) {
      if (isBlank(reader.char)) reader.at++
      else if (reader.char === '#' && separated) reader.skipLine()
      else if (reader.char === '\n') {
        reader.nextLine()
        const { column } = reader
        reader.skipBlanks()
        const least = '}]'.includes(reader.char) ? parent : parent + 1
        if (!reader.atLineEnd() && !reader.is('#') && column < least) reader.fail('brackets need more indentation')
      } else return
      separated = true
    }
  }

  #atDash(): boolean {
    return this.#in.char === '-' && isBlankOrEnd(this.#in.text.charAt(this.#in.at + 1))
  }

  #enter(): void {
    if (++this.#depth > deepest) this.#in.fail(`it goes deeper than ${deepest} levels`)
  }

  #leave(column: number): void {
    if (!this.#in.ended && this.#in.column > column) this.#in.fail('the indentation fits nothing above')
    this.#depth--
  }
}

function resolve(plain: string): YamlValue {
  if (/^(?:true|True|TRUE)$/.test(plain)) return true
  if (/^(?:false|False|FALSE)$/.test(plain)) return false
  return /^(?:|~|null|Null|NULL)$/.test(plain) ? null : plain
}
