/** Reads and writes messages in the format of Protocol Buffers, as far as etcd's transactions need it. */
import { MalformedResponse } from 'tenure/internal/etcd'

/** The wire types of fields. */
const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

/**
 * Writes fields from the last one to the first, into the end of a buffer. A message is preceded by its length, which is
 * known once its content is written.
 */
export class ProtobufWriter {
  readonly #buffer: Buffer
  #at: number

  /** `maxBytes` is at least what will be written. */
  constructor(maxBytes: number) {
    this.#buffer = Buffer.allocUnsafe(maxBytes)
    this.#at = maxBytes
  }

  /** Returns what was written so far. */
  written(): Buffer {
    return this.#buffer.subarray(this.#at)
  }

  text(field: number, text: string): void {
    const bytes = Buffer.byteLength(text)
    this.#move(bytes)
    this.#buffer.write(text, this.#at)
    this.#begin(field, bytes)
  }

  message(field: number, write: () => void): void {
    const end = this.#at
    write()
    this.#begin(field, end - this.#at)
  }

  /** Writes an integer that is not negative, given as a number or as decimal text. */
  integer(field: number, value: number | string): void {
    this.#varint(BigInt(value))
    this.#varint(field * 8 + wire.varint)
  }

  #begin(field: number, length: number): void {
    this.#varint(length)
    this.#varint(field * 8 + wire.bytes)
  }

  /** Each byte has seven bits, the lowest first. All but the last one have their highest bit set. */
  #varint(value: number | bigint): void {
    const bytes: number[] = []
    if (typeof value === 'bigint') for (; value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128)
    else for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128)
    bytes.push(Number(value))
    this.#move(bytes.length)
    this.#buffer.set(bytes, this.#at)
  }

  #move(bytes: number): void {
    this.#at -= bytes
    if (this.#at < 0) throw new RangeError('The message is larger than expected.')
  }
}

/** Reads the fields of a message, in their order. Throws a {@link MalformedResponse} if the message is cut off. */
export class ProtobufReader {
  readonly #buffer: Buffer
  #at: number
  readonly #end: number
  #field = 0
  #type = -1
  /** Where the content of the current field begins. */
  #begin = 0

  constructor(buffer: Buffer, begin = 0, end = buffer.length) {
    this.#buffer = buffer
    this.#at = begin
    this.#end = end
  }

  /** Moves to the next field and returns its number, or 0 at the end of the message. */
  next(): number {
    if (this.#at === this.#end) return 0
    const tag = Number(this.#varint())
    this.#field = Math.floor(tag / 8)
    this.#type = tag % 8
    const length = this.#type === wire.bytes ? Number(this.#varint()) : undefined
    this.#begin = this.#at
    if (length !== undefined) this.#at += length
    else if (this.#type === wire.varint) this.#varint()
    else if (this.#type === wire.fixed64) this.#at += 8
    else if (this.#type === wire.fixed32) this.#at += 4
    else throw new MalformedResponse('a field has an unknown type')
    if (this.#at > this.#end || this.#field === 0) throw new MalformedResponse('it is cut off')
    return this.#field
  }

  /** Returns the current field as text. */
  text(): string {
    this.#expect(wire.bytes)
    return this.#buffer.toString('utf8', this.#begin, this.#at)
  }

  /** Returns the current field as a message. */
  message(): ProtobufReader {
    this.#expect(wire.bytes)
    return new ProtobufReader(this.#buffer, this.#begin, this.#at)
  }

  /** Returns the current field as an unsigned integer, in decimal. It may be larger than a number can hold. */
  integer(): string {
    this.#expect(wire.varint)
    this.#at = this.#begin
    return String(this.#varint())
  }

  #expect(type: number): void {
    if (this.#type !== type) throw new MalformedResponse(`field ${this.#field} has a different type than expected`)
  }

  #varint(): number | bigint {
    let value = 0
    // Up to 49 bits. Larger integers are rare.
    for (let index = 0; index < 7; index++) {
      const byte = this.#byte(index)
      value += (byte & 127) * 2 ** (7 * index)
      if (byte < 128) return this.#read(index + 1, value)
    }
    let large = BigInt(value)
    for (let index = 7; index < 10; index++) {
      const byte = this.#byte(index)
      large += BigInt(byte & 127) << BigInt(7 * index)
      if (byte < 128) return this.#read(index + 1, BigInt.asUintN(64, large))
    }
    throw new MalformedResponse('an integer is too long')
  }

  #byte(index: number): number {
    const at = this.#at + index
    if (at >= this.#end) throw new MalformedResponse('it is cut off')
    return this.#buffer[at] as number
  }

  #read<T>(bytes: number, value: T): T {
    this.#at += bytes
    return value
  }
}
