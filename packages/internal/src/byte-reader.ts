/** The bytes of the largest safe integer as a varint. */
const longestNumberBytes = 8

/** Reads the compact binary texts of shards. It must run in a browser, so it uses no `Buffer`. */
export class ByteReader {
  readonly #bytes: Uint8Array
  #offset = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#offset === this.#bytes.length
  }

  /** A LEB128 varint. Throws if it is above `most`. */
  number(most = Number.MAX_SAFE_INTEGER): number {
    let value = 0
    for (let length = 1, scale = 1; ; length += 1, scale *= 128) {
      // A longer one would overflow the scale, and no comparison would refuse the result.
      if (length > longestNumberBytes) throw new RangeError('the number is too long')
      const byte = this.#bytes[this.#offset]
      if (byte === undefined) throw new RangeError('the text is cut off')
      this.#offset += 1
      value += (byte % 128) * scale
      if (value > most) throw new RangeError('the number is too large')
      if (byte < 128) return value
    }
  }

  text(): string {
    return textOf(this.#take(this.number()))
  }

  /** A UUID is 0 and its 16 bytes, any other id its length plus 1 and its text. */
  id(): string {
    const length = this.number()
    if (length > 0) return textOf(this.#take(length - 1))
    const hex = Array.from(this.#take(16), (byte) => byte.toString(16).padStart(2, '0')).join('')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }

  list<T>(limit: number, read: () => T): T[] {
    const length = this.number(limit)
    return Array.from({ length }, read)
  }

  #take(length: number): Uint8Array {
    const bytes = this.#bytes.subarray(this.#offset, this.#offset + length)
    if (bytes.length < length) throw new RangeError('the text is cut off')
    this.#offset += length
    return bytes
  }
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

/** Decodes a whole text. Returns undefined if it was not written in this format. */
export function decodeBytes<T>(bytes: Uint8Array, format: number, read: (reader: ByteReader) => T): T | undefined {
  const reader = new ByteReader(bytes)
  try {
    if (reader.number() !== format) return undefined
    const value = read(reader)
    return reader.isAtEnd ? value : undefined
  } catch {
    return undefined
  }
}
