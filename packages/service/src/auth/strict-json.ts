/** Parses JSON, and rejects duplicate keys in an object. */
export function parseStrictJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  if (hasKeyTwice(text)) throw new SyntaxError('An object has a duplicate key.')
  return value
}

/**
 * Returns whether an object in this JSON has a duplicate key. Parsers differ in which of the two values they take, so
 * the author of the text and the code that checks it may read different values. The text must be valid JSON.
 */
export function hasKeyTwice(text: string): boolean {
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
        const written = text.slice(at + 1, end - 1)
        // Decode the key, because one key can be written in many ways.
        const key = written.includes('\\') ? (JSON.parse(`"${written}"`) as string) : written
        if (keys.has(key)) return true
        keys.add(key)
      }
      at = end - 1
    }
  }
  return false
}

/** Returns the position just after the closing quote. */
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
