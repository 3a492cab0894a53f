/**
 * The meanings that fields of a model state can have. The same functions encode and decode: the writer returns the
 * value that it was given, and the reader returns the value that was written.
 */
import { Interner } from '../../../../testing/src/simulation/explore/interner.ts'

/** Identifies one version of a record. */
export interface Version {
  readonly version: string
  readonly released: boolean
}

/** Encodes or decodes a field by its meaning. */
export interface Codec {
  /** Sets the state of the machine, such as running or asleep, to which the times that follow belong. */
  at(life: string): void
  /** A small number that is kept unchanged. */
  small(value: number): number
  flag(value: boolean): boolean
  /** One of a few numbers of any size. */
  number(value: number): number
  /** One of a few texts. */
  word<T extends string>(text: T): T
  /** A name that is only compared with other names. The empty name has its own meaning. */
  name(name: string): string
  /** A version that may be observed again. */
  version(name: string): string
  /** The key of an observation: a version, and whether it was released. */
  sight(key: string): string
  /** A term. It is compared with other terms and with 0, and the next term is one higher. */
  term(term: number): number
  /** A generation. It is compared with others of the same cluster, and with 0. */
  generation(cluster: number, generation: number): number
  /** The attempt of a heartbeat. */
  attempt(attempt: string): string
  /** A moment that is only compared with the current time. */
  due(ms: number): number
  /** A moment from which time is counted. */
  moment(ms: number): number
  /** Like {@link moment}, but on the clock that continues while the machine sleeps. */
  bootMoment(ms: number): number
  maybe<T>(value: T | undefined, of: (value: T) => T): T | undefined
  each<T>(values: readonly T[], of: (value: T) => T): readonly T[]
  /** Returns the versions that may be observed again. */
  matchable<T extends { readonly key: string }>(past: readonly T[]): readonly T[]
  /** Returns the same object for equal records, which saves repeated work. */
  intern<T extends Version>(record: T): T
}

/** Texts and numbers that have occurred. A writer and a reader share them. */
export const tables = { words: new Interner(), numbers: [] as number[] }
/** Moments are encoded as bytes. `zero` means now, and `never` means a moment that never comes. */
export const zero = 100
export const never = 255
