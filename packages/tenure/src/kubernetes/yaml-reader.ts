/** What the text says is not understood. The message tells the line and never the text, which may hold secrets. */
export class YamlError extends Error {
  readonly line: number

  constructor(line: number, what: string) {
    super(`line ${line}: ${what}`)
    this.line = line
  }
}

/** Where a plain scalar ends in its line. */
export interface PlainEnd {
  /** After the last character that is no blank. */
  readonly end: number
  readonly by: 'line' | 'comment' | 'colon' | 'bracket'
}

const escapes: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\u0007',
  b: '\b',
  t: '\t',
  '\t': '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\u001b',
  ' ': ' ',
  '"': '"',
  '/': '/',
  '\\': '\\',
  N: '\u0085',
  _: '\u00a0',
  L: '\u2028',
  P: '\u2029',
}
const hexDigits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

/** A place in the text, and what can be read there. Every character is looked at a bounded number of times. */
export class YamlReader {
  readonly text: string
  at = 0
  /** Where the line begins. */
  lineStart = 0

  constructor(text: string) {
    this.text = text.replace(/^\ufeff/, '').replaceAll('\r\n', '\n')
    // oxlint-disable-next-line no-control-regex -- other parsers take some of them for line breaks, or end there
    const strange = this.text.search(/[\0-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/)
    if (strange !== -1) this.fail('it has a control character', strange)
  }

  get char(): string {
    return this.text.charAt(this.at)
  }

  is(char: string): boolean {
    return this.char === char
  }

  get column(): number {
    return this.at - this.lineStart
  }

  get ended(): boolean {
    return this.at >= this.text.length
  }

  fail(what: string, at = this.at): never {
    let line = 1
    for (let end = this.text.indexOf('\n'); end !== -1 && end < at; end = this.text.indexOf('\n', end + 1)) line++
    throw new YamlError(line, what)
  }

  atLineEnd(): boolean {
    return this.ended || this.char === '\n'
  }

  /** Spaces and tabs of this line. */
  skipBlanks(): void {
    while (isBlank(this.char)) this.at++
  }

  /** Spaces alone, up to a column. */
  skipSpaces(column = Infinity): void {
    while (this.char === ' ' && this.column < column) this.at++
  }

  skipLine(): void {
    const end = this.text.indexOf('\n', this.at)
    this.at = end === -1 ? this.text.length : end
  }

  /** Steps over a line break and over the spaces of the next line, which are its indentation. */
  nextLine(): void {
    if (this.ended) return
    this.lineStart = ++this.at
    if (this.atMarker()) this.fail('it has more than one document, or the end of one')
    this.skipSpaces()
  }

  /** Whether a document begins or ends here. */
  atMarker(): boolean {
    const mark = this.text.slice(this.at, this.at + 3)
    return (mark === '---' || mark === '...') && isBlankOrEnd(this.text.charAt(this.at + 3))
  }

  /** After a value there may be a comment, and nothing else. */
  endLine(): void {
    const before = this.at
    this.skipBlanks()
    if (this.char === '#' && this.at > before) this.skipLine()
    if (!this.atLineEnd()) this.fail('something stands behind a value that is complete')
  }

  /** From the end of a line to the first character of the next one that has content, or to the end. */
  toContent(): void {
    while (!this.ended && this.char === '\n') {
      this.nextLine()
      this.passIndentation()
      if (this.is('#')) this.skipLine()
    }
  }

  /** A tab counts differently from reader to reader, so it must not stand before content. */
  passIndentation(): void {
    const indented = this.at
    this.skipBlanks()
    if (this.at > indented && !this.atLineEnd() && this.char !== '#') this.fail('a tab stands in the indentation')
  }

  /** Finds the end of the plain scalar that begins at `from`. Inside brackets, brackets and commas end it. */
  plainEnd(from: number, inBrackets: boolean): PlainEnd {
    let end = from
    for (let i = from; ; i++) {
      const char = this.text.charAt(i)
      if (char === '' || char === '\n') return { end, by: 'line' }
      if (char === '#' && i > from && isBlank(this.text.charAt(i - 1))) return { end, by: 'comment' }
      if (char === ':' && endsKey(this.text.charAt(i + 1), inBrackets)) return { end, by: 'colon' }
      if (inBrackets && isBracket(char)) return { end, by: 'bracket' }
      if (!isBlank(char)) end = i + 1
    }
  }

  /** Refuses what cannot begin a plain scalar. */
  checkPlainStart(inBrackets: boolean): void {
    const { char } = this
    const next = this.text.charAt(this.at + 1)
    if ('-?:'.includes(char)) {
      if (!endsKey(next, inBrackets)) return
      this.fail(char === '?' ? 'a key is marked by "?"' : `"${char}" stands where a value is expected`)
    }
    if (char === '&') this.fail('it has an anchor')
    if (char === '*') this.fail('it has an alias')
    if (char === '!') this.fail('it has a tag')
    if (char === '%') this.fail('it has a directive')
    if (`,[]{}#|>'"@\``.includes(char)) this.fail(`"${char}" stands where it means nothing`)
  }

  /**
   * A scalar in quotes. Its further lines must be indented deeper than `parent`; without `parent` it must end in its
   * own line, or gives undefined.
   */
  quoted(parent?: number): string | undefined {
    const opened = this.at
    const quote = this.char
    let value = ''
    let from = ++this.at
    for (;;) {
      const { char } = this
      if (char === '') this.fail('a quote is not closed', opened)
      if (char === '\n') {
        if (parent === undefined) return undefined
        value += trimEnd(this.text.slice(from, this.at))
        const emptyLines = this.#nextQuotedLine(parent)
        value += emptyLines === 0 ? ' ' : '\n'.repeat(emptyLines)
        from = this.at
      } else if (char === quote) {
        value += this.text.slice(from, this.at++)
        if (quote === '"' || this.char !== quote) return value
        // Two single quotes stand for one.
        from = this.at++
      } else if (char === '\\' && quote === '"') {
        value += this.text.slice(from, this.at++)
        if (this.char === '\n' && parent === undefined) return undefined
        value += this.char === '\n' ? '\n'.repeat(this.#nextQuotedLine(parent ?? 0)) : this.#escape()
        from = this.at
      } else this.at++
    }
  }

  /** Returns how many empty lines were passed. */
  #nextQuotedLine(parent: number): number {
    for (let emptyLines = 0; ; emptyLines++) {
      this.nextLine()
      const { column } = this
      this.skipBlanks()
      if (this.char === '\n') continue
      if (!this.ended && column <= parent) this.fail('a text in quotes goes on with too little indentation')
      return emptyLines
    }
  }

  #escape(): string {
    const { char } = this
    const digits = hexDigits[char]
    if (digits === undefined) {
      const meant = Object.hasOwn(escapes, char) ? escapes[char] : undefined
      if (meant === undefined) this.fail('an escape in a text is not known')
      this.at++
      return meant
    }
    const hex = this.text.slice(this.at + 1, this.at + 1 + digits)
    const code = Number.parseInt(hex, 16)
    if (hex.length < digits || !/^[\da-f]+$/i.test(hex) || code > 0x10ffff)
      this.fail('an escape in a text is not valid')
    this.at += 1 + digits
    return String.fromCodePoint(code)
  }
}

export function isBlank(char: string): boolean {
  return char === ' ' || char === '\t'
}

export function isBlankOrEnd(char: string): boolean {
  return char === '' || char === '\n' || isBlank(char)
}

function isBracket(char: string): boolean {
  return char !== '' && ',[]{}'.includes(char)
}

/** Whether a colon (or a mark such as `-`) that is followed by this is more than text. */
function endsKey(next: string, inBrackets: boolean): boolean {
  return isBlankOrEnd(next) || (inBrackets && isBracket(next))
}

function trimEnd(text: string): string {
  let end = text.length
  while (end > 0 && isBlank(text.charAt(end - 1))) end--
  return text.slice(0, end)
}
