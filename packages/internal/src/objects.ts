/** Whether a value is a JSON object, not an array or null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Keys that can pollute a prototype if their value is an object and JavaScript code copies it. */
const pollutingKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * Whether an untrusted value has at most this many levels and no key that can pollute a prototype when it is copied.
 */
export function isHarmless(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return (
    levels > 0 &&
    Object.entries(value).every(
      ([key, inner]) => !(pollutingKeys.has(key) && typeof inner === 'object') && isHarmless(inner, levels - 1),
    )
  )
}
