/** Values as few bytes: most of them take one. */

const nothing = 0
const infinite = 1
const minusInfinite = 2
const fraction = 3
const list = 4
const some = 5
const text = 6
const whole = 7
/** Small numbers of ticks are one byte: 16 and more. */
const zero = 70
const leastTicks = -54
const mostTicks = 185

/** Texts and truth values that occur. */
export class Words {
  readonly #words: (string | boolean)[] = []
  readonly #numbers = new Map<string | boolean, number>()

  numberOf(word: string | boolean): number {
    const known = this.#numbers.get(word)
    if (known !== undefined) return known
    const number = this.#words.push(word) - 1
    this.#numbers.set(word, number)
    return number
  }

  of(number: number): string | boolean {
    return this.#words[number] ?? false
  }
}

/** Writes values, over and over again into the same place. */
export class Bytes {
  readonly #words: Words
  #bytes = new Uint8Array(4096)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  constructor(words: Words) {
    this.#words = words
  }

  begin(): this {
    this.#length = 0
    return this
  }

  end(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  small(value: number): void {
    if (this.#length + 16 > this.#bytes.length) this.#grow()
    this.#bytes[this.#length++] = value
  }

  nothing(): void {
    this.small(nothing)
  }

  some(): void {
    this.small(some)
  }

  list(length: number): void {
    this.small(list)
    this.small(length)
  }

  /** A whole number from 0. */
  count(value: number): void {
    if (value < 200) return this.small(value + 16)
    this.#number(value)
  }

  name(number: number, flag: boolean): void {
    this.count(number * 2 + Number(flag))
  }

  time(ms: number, unitMs: number): void {
    const ticks = ms / unitMs
    if (Number.isInteger(ticks) && ticks >= leastTicks && ticks <= mostTicks) return this.small(ticks + zero)
    this.#number(ms)
  }

  value(value: string | number | boolean): void {
    if (typeof value === 'number') return this.time(value, 100)
    this.small(text)
    this.small(this.#words.numberOf(value))
  }

  #number(value: number): void {
    if (value === Infinity) return this.small(infinite)
    if (value === -Infinity) return this.small(minusInfinite)
    if (value === (value | 0)) {
      this.small(whole)
      this.#view.setInt32(this.#length, value)
      this.#length += 4
      return
    }
    this.small(fraction)
    this.#view.setFloat64(this.#length, value)
    this.#length += 8
  }

  #grow(): void {
    const bytes = new Uint8Array(this.#bytes.length * 2)
    bytes.set(this.#bytes)
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer)
  }
}

/** Reads what {@link Bytes} wrote. */
export class ByteReader {
  /** The highest number of a name so far. */
  names = 1
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #words: Words
  #at: number

  constructor(words: Words, bytes: Uint8Array, offset: number) {
    this.#words = words
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset)
    this.#at = offset
  }

  small(): number {
    return this.#bytes[this.#at++] ?? 0
  }

  /** Whether there is nothing; then it is passed over. */
  isNothing(): boolean {
    if (this.#bytes[this.#at] !== nothing) return false
    this.#at += 1
    return true
  }

  some(): void {
    this.#at += 1
  }

  /** The length of a list, if one begins here. */
  list(): number | undefined {
    if (this.#bytes[this.#at] !== list) return undefined
    this.#at += 1
    return this.small()
  }

  count(): number {
    const first = this.small()
    return first >= 16 ? first - 16 : this.#number(first)
  }

  name(): { number: number; flag: boolean } {
    const value = this.count()
    const number = value >> 1
    this.names = Math.max(this.names, number)
    return { number, flag: (value & 1) === 1 }
  }

  time(unitMs: number): number {
    const first = this.small()
    return first >= 16 ? (first - zero) * unitMs : this.#number(first)
  }

  value(): string | number | boolean {
    if (this.#bytes[this.#at] !== text) return this.time(100)
    this.#at += 1
    return this.#words.of(this.small())
  }

  #number(tag: number): number {
    if (tag === infinite) return Infinity
    if (tag === minusInfinite) return -Infinity
    const at = this.#at
    this.#at += tag === whole ? 4 : 8
    return tag === whole ? this.#view.getInt32(at) : this.#view.getFloat64(at)
  }
}
