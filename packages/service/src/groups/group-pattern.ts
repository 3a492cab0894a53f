const pattern = /^[A-Za-z0-9*][A-Za-z0-9._:@*-]{0,127}$/

/** Returns whether the value is a group id in which `*` may match any characters. */
export function isPattern(value: unknown): value is string {
  return typeof value === 'string' && pattern.test(value)
}

/**
 * Returns a function that reports whether a group id matches one of the patterns. `*` matches any characters, and
 * everything else matches itself. Patterns are indexed by their prefix, or by their suffix if they begin with `*`, so
 * that matching hundreds of patterns costs little more than matching one.
 */
export function groupMatcher(patterns: readonly string[]): (groupId: string) => boolean {
  const exact = new Set(patterns.filter((each) => !each.includes('*')))
  const beginnings = new Ends((text, length) => text.slice(0, length))
  const endings = new Ends((text, length) => text.slice(text.length - length))
  const others: string[][] = []
  for (const parts of patterns.filter((each) => each.includes('*')).map((each) => each.split('*'))) {
    const [first = '', last = ''] = [parts[0], parts.at(-1)]
    if (first !== '') beginnings.add(first, parts)
    else if (last !== '') endings.add(last, parts)
    else others.push(parts)
  }
  return (groupId) =>
    exact.has(groupId) ||
    beginnings.match(groupId) ||
    endings.match(groupId) ||
    others.some((parts) => matches(groupId, parts))
}

/** Patterns indexed by their prefix or suffix. */
class Ends {
  readonly #cut: (text: string, length: number) => string
  readonly #byLength = new Map<number, Map<string, string[][]>>()

  constructor(cut: (text: string, length: number) => string) {
    this.#cut = cut
  }

  add(end: string, parts: string[]): void {
    const ends = this.#byLength.get(end.length) ?? new Map<string, string[][]>()
    this.#byLength.set(end.length, ends.set(end, [...(ends.get(end) ?? []), parts]))
  }

  match(text: string): boolean {
    for (const [length, ends] of this.#byLength) {
      if (length > text.length) continue
      const patterns = ends.get(this.#cut(text, length))
      if (patterns?.some((parts) => matches(text, parts))) return true
    }
    return false
  }
}

/** Takes the first position where each part matches. A later position is never better, so no backtracking is needed. */
function matches(text: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? ''
  const last = parts.at(-1) ?? ''
  const end = text.length - last.length
  if (!text.startsWith(first) || !text.endsWith(last)) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at <= end
}
