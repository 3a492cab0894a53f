/** What settings of several commands are read with. */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import type { JsonValue } from 'tenure'
import { Refusal } from './refusal.ts'
import type { From } from './settings.ts'
import { nearest } from './suggestions.ts'

const largestCount = 2 ** 31 - 1

export function textOf(text: string): string {
  if (text.trim() === '' || text.length > 1_024) throw new Refusal('must be text of 1 to 1024 characters')
  return text
}

/** Whoever opens it says what is wrong with it, and leaves out what may be a password. */
export function urlOf(text: string): string {
  if (text.trim() === '') throw new Refusal('must be a URL')
  return text
}

export function pathOf(text: string, { directory }: From): string {
  return resolve(directory, textOf(text))
}

export function fileOf(text: string, from: From): string {
  const path = pathOf(text, from)
  try {
    accessSync(path, constants.R_OK)
  } catch {
    throw new Refusal('must be a file that can be read')
  }
  return path
}

export function countOf(text: string): number {
  const count = Number(text)
  if (/^\d{1,10}$/.test(text) && count >= 1 && count <= largestCount) return count
  throw new Refusal(`must be a whole number from 1 to ${largestCount}`)
}

/** Terms outgrow counts: after a restored backup many are skipped. */
export function termOf(text: string): number {
  const term = Number(text)
  if (/^\d{1,16}$/.test(text) && term >= 1 && Number.isSafeInteger(term)) return term
  throw new Refusal(`must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`)
}

/** An election or an identity, by the rule of the library. */
export function nameOf(text: string): string {
  const length = Buffer.byteLength(text)
  // oxlint-disable-next-line no-control-regex
  const valid = length >= 1 && length <= 256 && !/[\u0000-\u001f\u007f-\u009f]/.test(text) && text.isWellFormed()
  if (!valid) throw new Refusal('must be text of 1 to 256 bytes of UTF-8 without control characters')
  return text
}

/** One of a few words. They are few enough to guess from a part: `run` for `run-once`, `warning` for `warn`. */
export function oneOf<T extends string>(known: readonly T[]): (text: string) => T {
  return (text) => {
    const found = known.find((each) => each === text)
    if (found !== undefined) return found
    const word = text.toLowerCase()
    const alike = known.find((each) => word.length > 1 && (each.includes(word) || word.includes(each)))
    throw new Refusal(`must be one of ${known.join(', ')}`, nearest(text, known) ?? alike)
  }
}

export function objectOf(text: string): Readonly<Record<string, JsonValue>> {
  const rule = new Refusal('must be a JSON object, such as {"zone":"a"}')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw rule
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw rule
  return value as Record<string, JsonValue>
}
