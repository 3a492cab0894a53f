/**
 * What fields of a scene can mean. The same functions write and read: each gives back what it was given, or what was
 * written.
 */
import { Interner } from '../../../../tenure/src/simulation/explore/interner.ts'

/** Names one version of a record. */
export interface Version {
  readonly version: string
  readonly released: boolean
}

/** What a field can mean. */
export interface Codec {
  /** From here on, times are those of a machine that runs, or does not. */
  at(life: string): void
  /** A small number that means what it says. */
  small(value: number): number
  flag(value: boolean): boolean
  /** One of a few numbers, of any size. */
  number(value: number): number
  /** One of a few texts. */
  word<T extends string>(text: T): T
  /** A name that is only compared with its like. Empty means something. */
  name(name: string): string
  /** A version that may be seen again. */
  version(name: string): string
  /** Compared with others, and with 0; the next one is one higher. */
  term(term: number): number
  /** Compared with others of the same cluster, and with 0. */
  generation(cluster: number, generation: number): number
  /** The attempt of a heartbeat. */
  attempt(attempt: string): string
  /** A moment that is only ever compared with now. */
  due(ms: number): number
  /** A moment from which something is counted. */
  moment(ms: number): number
  /** The same on the clock that goes on while the machine sleeps. */
  bootMoment(ms: number): number
  maybe<T>(value: T | undefined, of: (value: T) => T): T | undefined
  each<T>(values: readonly T[], of: (value: T) => T): readonly T[]
  /** Those that may be shown again. */
  matchable<T extends { readonly version: string }>(past: readonly T[]): readonly T[]
  /** The same object for the same record, where that saves work. */
  intern<T extends Version>(record: T): T
}

/** Texts and numbers that occur, which a writer and a reader share. */
export const tables = { words: new Interner(), numbers: [] as number[] }
/** Moments are bytes: this is now, and this is never. */
export const zero = 100
export const never = 255
