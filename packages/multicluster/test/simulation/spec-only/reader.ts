import { releasedKey } from '../../../../testing/src/simulation/explore/fields.ts'
import { knownAttempt } from './attempts.ts'
import { never, tables, zero, type Codec, type Version } from './codec.ts'
import { tickMs } from './scene.ts'

/** The properties through which fields of a model state are accessed while it is decoded. */
const parts =
  'server believed resources candidates relays spec status seen beats heartbeat step call claim 0 1 2 3'.split(' ')

/** Represents every object while a state is decoded: each of its properties is the object itself. */
const anything = {} as never
for (const part of parts) Object.defineProperty(anything, part, { value: anything })

const read = { attempts: new Map<number, string>(), names: [''] }
const interned = new Map<string, unknown>()

/** Decodes bytes that {@link Writer} encoded. */
export class Reader implements Codec {
  names = 0
  readonly #bytes: Uint8Array
  #at: number

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes
    this.#at = offset
  }

  get anything(): never {
    return anything
  }

  at(): void {}

  matchable(): readonly never[] {
    return []
  }

  intern<T extends Version>(record: T): T {
    const key = Object.values(record).join(' ')
    const known = interned.get(key) as T | undefined
    if (!known) interned.set(key, record)
    return known ?? record
  }

  small(): number {
    const value = this.#bytes[this.#at] ?? 0
    this.#at += 1
    return value
  }

  flag(): boolean {
    return this.small() === 1
  }

  number(): number {
    return tables.numbers[this.small()] ?? 0
  }

  word(): never {
    return tables.words.of(this.small()) as never
  }

  name(): string {
    const number = this.small()
    if (number > this.names) this.names = number
    while (number >= read.names.length) read.names.push(`n${read.names.length}`)
    return read.names[number] ?? ''
  }

  version(): string {
    return this.name()
  }

  sight(): string {
    const version = this.name()
    return this.flag() ? releasedKey(version) : version
  }

  term(): number {
    return this.small()
  }

  generation(): number {
    return this.small()
  }

  attempt(): string {
    const bytes = this.#bytes
    const at = this.#at
    const key =
      ((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0)
    const [cluster, uid, identity] = [this.small(), this.name(), this.word()]
    const generation = this.small()
    const known = read.attempts.get(key)
    if (known !== undefined) return known
    const attempt = knownAttempt(cluster, uid, identity, generation)
    read.attempts.set(key, attempt)
    return attempt
  }

  due(): number {
    return this.small() * tickMs
  }

  moment(): number {
    const ticks = this.small()
    return ticks === never ? -Infinity : (ticks - zero) * tickMs
  }

  bootMoment(): number {
    return this.moment()
  }

  maybe<T>(_: T | undefined, of: (value: T) => T): T | undefined {
    return this.flag() ? of(anything) : undefined
  }

  each<T>(_: readonly T[], of: (value: T) => T): readonly T[] {
    return Array.from({ length: this.small() }, () => of(anything))
  }
}
