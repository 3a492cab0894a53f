/** Any JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Names with a meaning of their own in a JavaScript that copies what it was given, if an object is below them. */
const poison = new Set(['__proto__', 'constructor', 'prototype'])

/** Whether a value that anybody may have sent has at most so many levels, and no key that poisons a copy of it. */
export function isHarmless(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return (
    levels > 0 &&
    Object.entries(value).every(
      ([key, inner]) => !(poison.has(key) && typeof inner === 'object') && isHarmless(inner, levels - 1),
    )
  )
}
