import { isObject } from './objects.ts'

/** Whether a value is a term. Other programs that share a record may begin at term 0. */
export function isTerm(value: unknown, lowest: 0 | 1 = 1): value is number {
  return Number.isSafeInteger(value) && (value as number) >= lowest
}

/** Whether a value is a lease duration that a timer can wait for. 0 means a missing duration, where that is allowed. */
export function isLeaseDuration(value: unknown, lowest: 'missing' | 'present' = 'present'): value is number {
  if (typeof value !== 'number' || !(value < 2 ** 31)) return false
  return lowest === 'missing' ? value >= 0 : value > 0
}

/**
 * Reads the fields of a stored or received record. It rejects every field that it does not fully understand, because
 * guessing could elect a second leader. Formats differ in the names and the spelling of fields, but not in what is
 * valid.
 */
export class FieldReader {
  readonly #values: Readonly<Record<string, unknown>>
  readonly #invalid: (what: string) => Error

  /** `invalid` creates the error for an unusable field. */
  constructor(values: Readonly<Record<string, unknown>>, invalid: (what: string) => Error) {
    this.#values = values
    this.#invalid = invalid
  }

  isNull(name: string): boolean {
    return this.#values[name] === null
  }

  text(name: string): string {
    const value = this.#values[name]
    if (typeof value === 'string') return value
    throw this.#invalid(`"${name}" is not a string`)
  }

  /** Undefined if the field is missing. */
  optionalText(name: string): string | undefined {
    return this.#values[name] === undefined ? undefined : this.text(name)
  }

  number(name: string, valid: (value: number) => boolean): number {
    const value = this.#values[name]
    if (typeof value === 'number' && valid(value)) return value
    throw this.#invalid(`"${name}" is ${JSON.stringify(value)}`)
  }

  term(name: string, lowest: 0 | 1 = 1): number {
    return this.number(name, (value) => isTerm(value, lowest))
  }

  leaseDurationMs(name: string, lowest: 'missing' | 'present' = 'present'): number {
    return this.number(name, (value) => isLeaseDuration(value, lowest))
  }

  /** A time in milliseconds. It is only displayed, so any finite number is valid. */
  timeMs(name: string): number {
    return this.number(name, Number.isFinite)
  }

  boolean(name: string): boolean {
    const value = this.#values[name]
    if (typeof value === 'boolean') return value
    throw this.#invalid(`"${name}" is not a boolean`)
  }

  object(name: string): Record<string, unknown> {
    const value = this.#values[name]
    if (isObject(value)) return value
    throw this.#invalid(`"${name}" is not an object`)
  }
}
