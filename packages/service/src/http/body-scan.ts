/** Checks a body before it is parsed. */

/** The maximum nesting of a body. Metadata inside it may be 8 levels deep. */
const deepest = 12
/** The maximum number of values in a body. A batch of 20,000 leases has 60,000. */
const maxValues = 100_000
/** A body up to this size is not checked, because it never takes long to parse. */
const alwaysQuickBytes = 1024

/**
 * Returns whether a body can be parsed without a stall. A few megabytes of brackets or keys take the parser a second,
 * during which no lease is renewed. This check takes milliseconds. It does not have to understand JSON, because a
 * malformed body fails later.
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
        if (++depth > deepest || ++values > maxValues) return false
        break
      case closeBracket:
      case closeBrace:
        depth -= 1
        break
      case comma:
        if (++values > maxValues) return false
    }
  }
  return true
}

/** The keys of a batch of renewals, and of each lease in it. Their first letters differ. */
const batchKeys = ['node_id', 'renewals'].map((key) => Buffer.from(key))
const leaseKeys = ['group_id', 'term', 'extend_by_ms'].map((key) => Buffer.from(key))

/**
 * Returns whether a body has the outline of a batch of renewals, without duplicate keys. A batch may be larger than any
 * other body. A body that is refused here is never parsed, because the parser takes 90 ms for a hundred thousand
 * meaningless keys.
 */
export function isBatch(body: Buffer): boolean {
  // A batch is an object (depth 1) with a list (2) of objects (3).
  let depth = 0
  let values = 0
  let seenInWhole = 0
  let seenInLease = 0
  for (let index = 0; index < body.length; index++) {
    switch (body[index]) {
      case quote: {
        const end = endOfText(body, index + 1)
        if (isKeyEnd(body, end + 1)) {
          const bit = keyBit(body, index + 1, end, depth)
          const seen = depth === 1 ? seenInWhole : seenInLease
          if (bit === 0 || (seen & bit) !== 0) return false
          if (depth === 1) seenInWhole |= bit
          else seenInLease |= bit
        }
        index = end
        break
      }
      case openBrace:
        if (depth !== 0 && depth !== 2) return false
        if (++values > maxValues) return false
        depth += 1
        seenInLease = 0
        break
      case openBracket:
        if (depth !== 1) return false
        depth += 1
        break
      case closeBracket:
      case closeBrace:
        depth -= 1
        break
      case comma:
        if (++values > maxValues) return false
    }
  }
  return true
}

/** Returns the bit of a key in an object at this depth, or 0 if the key is unknown. */
function keyBit(body: Buffer, start: number, end: number, depth: number): number {
  const keys = depth === 1 ? batchKeys : leaseKeys
  const first = body[start]
  const found = keys.findIndex((key) => key[0] === first)
  const key = keys[found]
  if (!key || key.length !== end - start) return 0
  for (let at = 1; at < key.length; at++) if (key[at] !== body[start + at]) return 0
  return 1 << found
}

function isKeyEnd(body: Buffer, start: number): boolean {
  let at = start
  while (body[at] === 32 || body[at] === 10 || body[at] === 13 || body[at] === 9) at += 1
  return body[at] === colon
}

const quote = 34
const comma = 44
const colon = 58
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
