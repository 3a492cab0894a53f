import { isUtf8 } from 'node:buffer'

/** Metadata may be 8 levels deep, within a body. */
const deepest = 12
/** A batch of 20,000 leases has 60,000 values. */
const mostValues = 100_000
/** What is shorter cannot take long, whatever it is. */
const alwaysQuickBytes = 1024

/**
 * Whether a body can be parsed without a stall: a few megabytes of brackets, or of keys, take the parser a second, in
 * which no lease is renewed. This takes milliseconds. It need not understand JSON: what is malformed fails later.
 */
export function isQuicklyParsed(body: Buffer): boolean {
  if (body.length <= alwaysQuickBytes) return true
  let depth = 0
  let values = 0
  for (let index = 0; index < body.length; index++) {
    switch (body[index]) {
      case quote:
        index = endOfText(body, index + 1)
        break
      case openBracket:
      case openBrace:
        if (++depth > deepest || ++values > mostValues) return false
        break
      case closeBracket:
      case closeBrace:
        depth -= 1
        break
      case comma:
        if (++values > mostValues) return false
    }
  }
  return true
}

/** JSON is UTF-8. Other bytes would be replaced on reading, and two names become one. */
export function isText(body: Buffer): boolean {
  return isUtf8(body)
}

const quote = 34
const comma = 44
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125

function endOfText(body: Buffer, start: number): number {
  let index = start
  while (index < body.length && body[index] !== quote) index += body[index] === backslash ? 2 : 1
  return index
}
