/**
 * Parses JSON in which no object has a key twice. Parsers differ in which of the two they take, so whoever made the
 * text and whoever checked it may have read different things.
 */
export function parseStrictJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  // The text is sound from here on.
  const keysOf: (Set<string> | undefined)[] = []
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '{') keysOf.push(new Set())
    else if (character === '[') keysOf.push(undefined)
    else if (character === '}' || character === ']') keysOf.pop()
    else if (character === '"') {
      const end = endOfString(text, at)
      const keys = keysOf.at(-1)
      if (keys && isKey(text, end)) {
        // Decoded, since one key can be written in many ways.
        const key = JSON.parse(text.slice(at, end)) as string
        if (keys.has(key)) throw new SyntaxError('A key stands twice in one object.')
        keys.add(key)
      }
      at = end - 1
    }
  }
  return value
}

/** The position behind the closing quote. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

function isKey(text: string, end: number): boolean {
  let at = end
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1
  return text[at] === ':'
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
