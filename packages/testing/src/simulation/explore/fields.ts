/** Encodes and decodes the fields of a model state by their meaning. Most fields take one byte. */
import type { FieldVisitor } from 'tenure/internal'
import { Interner } from './interner.ts'

/** Replaces every name that can never be matched again. */
export const dead = '~'

const releasedEnd = ' released'

/** The version in the key of an observed version. */
export function versionOf(key: string): string {
  return key.endsWith(releasedEnd) ? key.slice(0, -releasedEnd.length) : key
}

export function releasedKey(version: string): string {
  return `${version}${releasedEnd}`
}

/** Returns the name for a number. */
export function nameOf(number: number): string {
  return number === 0 ? '' : number === 1 ? dead : String(number)
}

/** Values below this are tags for everything but small numbers. */
const least = 8
const missing = 0
const there = 1
const infinite = 2
const minusInfinite = 3
const fraction = 4
const word = 5
/** Encodes 0 ticks. Small numbers of ticks take one byte. */
const zero = 70
const leastTicks = least - zero
const mostTicks = 255 - zero
/** Other durations are multiples of this, or small. */
const valueUnitMs = 100

/** The roles of a name, as bits. */
const asAttempt = 1
const asWriteId = 2
const asVersion = 4

/** A state takes a few hundred bytes. */
const mostBytes = 1 << 14

/** Encodes states into a buffer that each state overwrites. */
export class FieldWriter implements FieldVisitor {
  readonly words = new Interner()
  /** The pending call of the elector that is being encoded. */
  flight: number | undefined
  /** The clock of that elector. */
  nowMs = 0
  readonly #longestAgeMs: number
  readonly #readsFirst: boolean
  readonly #bytes = new Uint8Array(mostBytes)
  readonly #view = new DataView(this.#bytes.buffer)
  readonly #numbers = new Map<string, number>()
  /** The roles of each name, by number. */
  readonly #known: number[] = []
  readonly #terms: number[] = []
  readonly #termsAt: number[] = []
  #length = 0
  #unitMs = 0
  #heldNowMs = 0

  /** `readsFirst`: whether a campaign may have to begin with a read. Otherwise no decision asks when it began. */
  constructor(longestAgeMs: number, readsFirst: boolean) {
    this.#longestAgeMs = longestAgeMs
    this.#readsFirst = readsFirst
  }

  begin(): void {
    this.#length = 0
    this.#numbers.clear()
    this.#known.length = 2
    this.#terms.length = 0
    this.#termsAt.length = 0
  }

  /** Sets the clock that the following times refer to. */
  at(unitMs: number, nowMs: number, heldNowMs: number, flight: number | undefined): void {
    this.#unitMs = unitMs
    this.nowMs = nowMs
    this.#heldNowMs = heldNowMs
    this.flight = flight
  }

  end(): Uint8Array {
    // Writes beyond the end of the buffer are lost, so different states would be treated as one.
    if (this.#length > mostBytes) throw new RangeError('A state takes too many bytes.')
    const lowest = Math.min(...this.#terms)
    for (let index = 0; index < this.#terms.length; index += 1) {
      const above = (this.#terms[index] as number) - lowest + 2
      if (above > 255) throw new RangeError('The terms of a state are too far apart.')
      this.#bytes[this.#termsAt[index] as number] = above
    }
    return this.#bytes.subarray(0, this.#length)
  }

  small(value: number): void {
    this.#bytes[this.#length++] = value
  }

  due(ms: number): number {
    const left = ms - this.nowMs
    this.#time(left <= 0 ? 0 : left === Infinity ? left : Math.ceil(left / this.#unitMs - 1e-9) * this.#unitMs)
    return ms
  }

  heldDue(ms: number): number {
    const left = ms - this.#heldNowMs
    this.#time(left <= 0 ? 0 : left === Infinity ? left : Math.ceil(left / this.#unitMs - 1e-9) * this.#unitMs)
    return ms
  }

  moment(ms: number): number {
    this.#time(Math.max(ms - this.nowMs, -this.#longestAgeMs))
    return ms
  }

  heldMoment(ms: number): number {
    this.#time(Math.max(ms - this.#heldNowMs, -this.#longestAgeMs))
    return ms
  }

  since(ms: number, moment: number): number {
    if (this.#readsFirst) this.small(moment < ms ? 0 : 1)
    return ms
  }

  term(term: number): number {
    if (term > 0) {
      this.#terms.push(term)
      this.#termsAt.push(this.#length)
    }
    this.small(term + 1)
    return term
  }

  attempt(name: string): string {
    return this.#name(name, asAttempt)
  }

  writeId(name: string): string {
    return this.#name(name, asWriteId)
  }

  version(name: string): string {
    return this.#name(name, asVersion)
  }

  sight(key: string): string {
    const version = versionOf(key)
    this.#name(version, 0)
    this.small(version === key ? 0 : 1)
    return key
  }

  isAttempt(name: string): boolean {
    return this.#isKnown(name, asAttempt)
  }

  isWriteId(name: string): boolean {
    return this.#isKnown(name, asWriteId)
  }

  isVersion(name: string): boolean {
    return this.#isKnown(name, asVersion)
  }

  call(id: number): number {
    this.small(id === this.flight ? 1 : 0)
    return id
  }

  value<T extends string | number | boolean>(value: T): T {
    if (typeof value === 'number') {
      this.#number(value, valueUnitMs)
    } else {
      this.small(word)
      this.small(this.words.numberOf(value))
    }
    return value
  }

  maybe<T>(value: T | undefined, of: (fields: FieldVisitor, value: T) => T): T | undefined {
    if (value === undefined) this.small(missing)
    else {
      this.small(there)
      of(this, value)
    }
    return value
  }

  each<T>(values: readonly T[], of: (fields: FieldVisitor, value: T) => T): readonly T[] {
    this.small(values.length)
    for (const value of values) of(this, value)
    return values
  }

  #isKnown(name: string, as: number): boolean {
    const number = this.#numbers.get(name)
    return number !== undefined && ((this.#known[number] ?? 0) & as) !== 0
  }

  #name(name: string, as: number): string {
    if (name === '' || name === dead) {
      this.small(name === '' ? 0 : 1)
      return name
    }
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#known.length
      if (number > 255) throw new RangeError('A model state has too many distinct names to encode.')
      this.#numbers.set(name, number)
      this.#known.push(as)
    } else {
      this.#known[number] = (this.#known[number] ?? 0) | as
    }
    this.small(number)
    return name
  }

  #time(ms: number): void {
    this.#number(ms, this.#unitMs)
  }

  #number(value: number, unit: number): void {
    const ticks = value / unit
    if (Number.isInteger(ticks) && ticks >= leastTicks && ticks <= mostTicks) return this.small(ticks + zero)
    if (value === Infinity) return this.small(infinite)
    if (value === -Infinity) return this.small(minusInfinite)
    this.small(fraction)
    this.#view.setFloat64(this.#length, value)
    this.#length += 8
  }
}

/** Placeholder values for fields that no decision reads. */
const shown: { [name: string]: unknown } = {
  election: 'e',
  acquiredAt: 0,
  renewedAt: 0,
  metadata: {},
  nowMs: 0,
  sleptMs: 0,
}
shown['record'] = shown
shown['preference'] = shown

/** Decodes the bytes that {@link FieldWriter} wrote. */
export class StateFieldReader implements FieldVisitor {
  /** The highest number of a name so far. */
  names = 1
  unitMs = 0
  /** Represents the value that is being read. Callers take only placeholder fields from it. */
  readonly anything = shown as never
  readonly #words: Interner
  readonly #readsFirst: boolean
  #bytes: Uint8Array = new Uint8Array()
  #at = 0

  constructor(words: Interner, readsFirst: boolean) {
    this.#words = words
    this.#readsFirst = readsFirst
  }

  begin(bytes: Uint8Array, offset: number): void {
    this.#bytes = bytes
    this.#at = offset
    this.names = 1
  }

  small(): number {
    return this.#bytes[this.#at++] as number
  }

  due(): number {
    return this.#number(this.unitMs)
  }

  heldDue(): number {
    return this.#number(this.unitMs)
  }

  moment(): number {
    return this.#number(this.unitMs)
  }

  heldMoment(): number {
    return this.#number(this.unitMs)
  }

  since(): number {
    // Now, or a time before every moment but one that never was.
    return this.#readsFirst && this.small() === 1 ? -Number.MAX_VALUE : 0
  }

  term(): number {
    return this.small() - 1
  }

  attempt(_name: string): string {
    return this.#name()
  }

  writeId(): string {
    return this.#name()
  }

  version(): string {
    return this.#name()
  }

  sight(): string {
    const version = this.#name()
    return this.small() === 1 ? releasedKey(version) : version
  }

  call(): number {
    return this.small()
  }

  value<T extends string | number | boolean>(_value: T): T {
    if (this.#bytes[this.#at] !== word) return this.#number(valueUnitMs) as T
    this.#at += 1
    return this.#words.of(this.small()) as T
  }

  maybe<T>(_value: T | undefined, of: (fields: FieldVisitor, value: T) => T): T | undefined {
    return this.small() === missing ? undefined : of(this, this.anything)
  }

  each<T>(_values: readonly T[], of: (fields: FieldVisitor, value: T) => T): readonly T[] {
    const length = this.small()
    const values: T[] = []
    for (let index = 0; index < length; index += 1) values.push(of(this, this.anything))
    return values
  }

  #name(): string {
    const number = this.small()
    if (number > this.names) this.names = number
    return nameOf(number)
  }

  #number(unit: number): number {
    const first = this.small()
    if (first >= least) return (first - zero) * unit
    if (first === infinite) return Infinity
    if (first === minusInfinite) return -Infinity
    const at = this.#at
    this.#at += 8
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset).getFloat64(at)
  }
}
