import { versionOf } from '../../../../testing/src/simulation/explore/fields.ts'
import { originOf } from './attempts.ts'
import { never, tables, zero, type Codec } from './codec.ts'
import { clusterNames, tickMs } from './scene.ts'

const mostBytes = 4_096
const { words, numbers } = tables
/** The index of the ranks of terms. The other ranks are those of the generations of each cluster. */
const termRanks = 0

/** Numbers that are encoded by their order and by the distance between neighbors, up to a limit. 0 stays 0. */
class Ranked {
  readonly #furthest: number
  readonly #values: number[] = []
  readonly #places: number[] = []

  constructor(furthest: number) {
    this.#furthest = furthest
  }

  clear(): void {
    this.#values.length = 0
    this.#places.length = 0
  }

  add(place: number, value: number): void {
    this.#values.push(value)
    this.#places.push(place)
  }

  put(bytes: Uint8Array): void {
    const sorted = [0, ...this.#values].sort((one, other) => one - other)
    const ranks: number[] = []
    let [rank, before] = [0, 0]
    for (const value of sorted) {
      if (value > before) rank += before === 0 ? 1 : Math.min(value - before, this.#furthest)
      ranks.push(rank)
      before = value
    }
    for (const [index, value] of this.#values.entries()) {
      bytes[this.#places[index] ?? 0] = ranks[sorted.indexOf(value)] ?? 0
    }
  }
}

/** Encodes model states, always into the same buffer. */
export class Writer implements Codec {
  readonly #longestAgeMs: number
  readonly #bytes = new Uint8Array(mostBytes)
  readonly #names = new Map<string, number>()
  readonly #versions = new Set<string>()
  readonly #ranked = [new Ranked(2), ...clusterNames.map(() => new Ranked(1))]
  /** How much time has passed, on the clock that stops while the machine sleeps, and on the other one. */
  #passedMs = 0
  #bootPassedMs = 0
  #length = 0

  constructor(longestAgeMs: number) {
    this.#longestAgeMs = longestAgeMs
  }

  begin(ticks: number): void {
    this.#bootPassedMs = ticks * tickMs
    this.#length = 0
    this.#names.clear()
    this.#versions.clear()
    for (const ranked of this.#ranked) ranked.clear()
  }

  end(): Uint8Array {
    if (this.#length > mostBytes) throw new RangeError('A model state takes too many bytes.')
    for (const ranked of this.#ranked) ranked.put(this.#bytes)
    return this.#bytes.subarray(0, this.#length)
  }

  at(life: string): void {
    this.#passedMs = life === 'asleep' ? 0 : this.#bootPassedMs
  }

  matchable<T extends { readonly key: string }>(past: readonly T[]): readonly T[] {
    return past.filter(({ key }) => this.#versions.has(versionOf(key)))
  }

  intern<T>(record: T): T {
    return record
  }

  small(value: number): number {
    this.#bytes[this.#length] = value
    this.#length += 1
    return value
  }

  flag(value: boolean): boolean {
    this.small(Number(value))
    return value
  }

  number(value: number): number {
    if (!numbers.includes(value)) numbers.push(value)
    this.small(numbers.indexOf(value))
    return value
  }

  word<T extends string>(text: T): T {
    this.small(words.numberOf(text))
    return text
  }

  name(name: string): string {
    if (name !== '' && !this.#names.has(name)) this.#names.set(name, this.#names.size + 1)
    this.small(this.#names.get(name) ?? 0)
    return name
  }

  version(name: string): string {
    this.#versions.add(name)
    return this.name(name)
  }

  sight(key: string): string {
    const version = versionOf(key)
    this.name(version)
    this.flag(version !== key)
    return key
  }

  term(term: number): number {
    this.#ranked[termRanks]?.add(this.#length, term)
    this.small(0)
    return term
  }

  generation(cluster: number, generation: number): number {
    this.#ranked[cluster + 1]?.add(this.#length, generation)
    this.small(0)
    return generation
  }

  attempt(attempt: string): string {
    const origin = originOf(attempt)
    this.small(origin.cluster)
    this.name(origin.uid)
    this.word(origin.identity)
    this.generation(origin.cluster, origin.generation)
    return attempt
  }

  due(ms: number): number {
    this.small(Math.max(0, ms - this.#passedMs) / tickMs)
    return ms
  }

  moment(ms: number): number {
    this.#time(ms - this.#passedMs)
    return ms
  }

  bootMoment(ms: number): number {
    this.#time(ms - this.#bootPassedMs)
    return ms
  }

  #time(ms: number): void {
    this.small(ms === -Infinity ? never : Math.max(ms, -this.#longestAgeMs) / tickMs + zero)
  }

  maybe<T>(value: T | undefined, of: (value: T) => T): T | undefined {
    this.flag(value !== undefined)
    if (value !== undefined) of(value)
    return value
  }

  each<T>(values: readonly T[], of: (value: T) => T): readonly T[] {
    this.small(values.length)
    for (const value of values) of(value)
    return values
  }
}
