/**
 * Encodes model states as bytes, and back. Two states are equal if they differ in nothing that a decision or a check
 * reads. Names are numbered in the order in which they appear, and terms by their rank. For seqs, only equality, order,
 * and direct succession count.
 */
import { ServiceError } from '../../../src/common/errors.ts'
import type { Appender } from '../../../src/storage/appender.ts'
import type { StoredGroup, StorageHead } from '../../../src/storage/storage.ts'
import { forget } from './irrelevant-state.ts'
import { headOf, keptGroup, type Flight, type Kept, type ActiveTerm, type Scene, type Swap } from './scene.ts'

const phases = ['elected', 'swapping', 'swapped', 'serving'] as const
const stages = ['sent', 'unknown', 'instead', 'taken', 'again'] as const
const answers = [undefined, 'swapped', 'failed', 'own', 'other'] as const
const over = new ServiceError('BACKEND_UNAVAILABLE', 'It is over.')

const plain = 0
const aTerm = 1
const aSeq = 2
const aName = 3

/** The bytes are overwritten by the next call. */
export function writeScene(scene: Scene): Uint8Array {
  return writer.scene(forget(scene))
}

export function readScene(bytes: Uint8Array, offset: number): Scene {
  return new Reader(bytes, offset).scene()
}

const most = 4_096
const buffer = new Uint8Array(most)

class Writer {
  readonly #values = new Int32Array(most)
  readonly #kinds = new Uint8Array(most)
  #length = 0

  /** The bytes are overwritten by the next call. */
  scene({
    shown,
    confirmed,
    activeTerms,
    orphans,
    budget,
    loadedTerm,
    term: _t,
    names: _n,
    ...rest
  }: Scene): Uint8Array {
    nothing(rest)
    this.#length = 0
    this.#put(budget)
    this.#put(loadedTerm, aTerm)
    this.#kept(confirmed)
    this.#put(Number(shown === confirmed))
    if (shown !== confirmed) this.#kept(shown)
    this.#list(activeTerms, (activeTerm) => this.#activeTerm(activeTerm))
    this.#list(orphans, (orphan) => this.#swap(orphan))
    return this.#bytes()
  }

  #kept({ head, groups, ...rest }: Kept): void {
    nothing(rest)
    this.#head(head)
    this.#list(groups, ({ value, seq }) => {
      this.#put(value, aName)
      this.#put(seq, aSeq)
    })
  }

  #activeTerm({ term, phase, isEnded, appender, flight, task, memory, ...rest }: ActiveTerm): void {
    nothing(rest)
    this.#put(term, aTerm)
    this.#put(phases.indexOf(phase))
    this.#put(Number(isEnded))
    this.#maybe(appender, (some) => this.#appender(some))
    this.#maybe(flight, (some) => this.#flight(some))
    this.#maybe(task, ({ groups, isAsked }) => {
      this.#put(Number(isAsked))
      this.#maybe(groups, (some) => this.#groups(some))
    })
    this.#list(memory, (value) => this.#put(value, aName))
  }

  #appender({ head, changes, open, unconfirmed: unheard, endReason: isOver, ...rest }: Appender): void {
    nothing(rest)
    this.#head(head)
    this.#maybe(changes.term, (term) => this.#put(term, aTerm))
    this.#maybe(open, ({ batch, instead, stage, ...more }) => {
      nothing(more)
      this.#head(batch.head)
      this.#groups(batch.groups)
      this.#head(instead.head)
      this.#put(stages.indexOf(stage))
    })
    this.#list(unheard, (id) => this.#put(Number(id)))
    this.#put(Number(isOver !== undefined))
  }

  #flight({ answer, ...swap }: Flight): void {
    this.#swap(swap)
    this.#put(answers.indexOf(answer))
  }

  #swap({ over: under, head, groups, ...rest }: Swap): void {
    nothing(rest)
    this.#head(under)
    this.#head(head)
    this.#groups(groups)
  }

  #groups(groups: readonly StoredGroup[]): void {
    this.#list(groups, ({ id, record }) => {
      this.#put(Number(id))
      this.#put(record.term, aName)
    })
  }

  #head({ term, seq, batch }: StorageHead): void {
    this.#put(term, aTerm)
    this.#put(seq, aSeq)
    this.#put(Number(batch), aName)
  }

  #maybe<T>(value: T | undefined, put: (value: T) => void): void {
    this.#put(Number(value !== undefined))
    if (value !== undefined) put(value)
  }

  #list<T>(values: readonly T[], put: (value: T) => void): void {
    this.#put(values.length)
    for (const value of values) put(value)
  }

  #put(value: number, kind = plain): void {
    this.#values[this.#length] = value
    this.#kinds[this.#length] = kind
    this.#length += 1
  }

  #bytes(): Uint8Array {
    const numbers = [new Map<number, number>(), this.#ranks(aTerm, 1), this.#ranks(aSeq, 2), new Map<number, number>()]
    const names = numbers[aName]
    for (let at = 0; at < this.#length; at += 1) {
      const value = this.#values[at] ?? 0
      const kind = this.#kinds[at] ?? plain
      if (kind === aName && !names?.has(value)) names?.set(value, names.size)
      buffer[at] = kind === plain ? value : (numbers[kind]?.get(value) ?? 0)
    }
    return buffer.subarray(0, this.#length)
  }

  /** Keeps the order and direct succession of the values, but limits the distance between neighbors. */
  #ranks(kind: number, furthest: number): Map<number, number> {
    const ranks = new Map<number, number>()
    for (let at = 0; at < this.#length; at += 1) if (this.#kinds[at] === kind) ranks.set(this.#values[at] ?? 0, 0)
    const values = [...ranks.keys()].toSorted((one, other) => one - other)
    let [before = 0] = values
    let rank = 0
    for (const value of values) {
      rank += Math.min(value - before, furthest)
      ranks.set(value, rank)
      before = value
    }
    return ranks
  }
}

const writer = new Writer()

class Reader {
  readonly #bytes: Uint8Array
  #at: number
  #names = 0
  #highestTerm = 0

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes
    this.#at = offset
  }

  scene(): Scene {
    const budget = this.#next()
    const loadedTerm = this.#term()
    const confirmed = this.#kept()
    const shown = this.#next() === 1 ? confirmed : this.#kept()
    const activeTerms = this.#list(() => this.#activeTerm())
    const orphans = this.#list(() => this.#swap())
    return { shown, confirmed, activeTerms, orphans, budget, loadedTerm, term: this.#highestTerm, names: this.#names }
  }

  #kept(): Kept {
    const head = this.#head()
    return { head, groups: this.#list(() => ({ value: this.#name(), seq: this.#next() })) }
  }

  #activeTerm(): ActiveTerm {
    return {
      term: this.#term(),
      phase: phases[this.#next()] ?? 'elected',
      isEnded: this.#next() === 1,
      appender: this.#maybe(() => this.#appender()),
      flight: this.#maybe(() => this.#flight()),
      task: this.#maybe(() => ({ isAsked: this.#next() === 1, groups: this.#maybe(() => this.#groups()) })),
      memory: this.#list(() => this.#name()),
    }
  }

  #appender(): Appender {
    const head = this.#head()
    const term = this.#maybe(() => this.#term())
    return {
      head,
      changes: term === undefined ? {} : { term },
      open: this.#maybe(() => ({
        batch: { head: this.#head(), groups: this.#groups() },
        instead: { head: this.#head(), groups: [] },
        stage: stages[this.#next()] ?? 'sent',
      })),
      unconfirmed: this.#list(() => String(this.#next())),
      endReason: this.#next() === 1 ? over : undefined,
    }
  }

  #flight(): Flight {
    return { ...this.#swap(), answer: answers[this.#next()] }
  }

  #swap(): Swap {
    return { over: this.#head(), head: this.#head(), groups: this.#groups() }
  }

  #groups(): readonly StoredGroup[] {
    return this.#list(() => keptGroup(this.#next(), this.#name()))
  }

  #head(): StorageHead {
    return headOf(this.#term(), this.#next(), this.#name())
  }

  #maybe<T>(get: () => T): T | undefined {
    return this.#next() === 1 ? get() : undefined
  }

  #list<T>(get: () => T): T[] {
    return Array.from({ length: this.#next() }, get)
  }

  #name(): number {
    const name = this.#next()
    this.#names = Math.max(this.#names, name)
    return name
  }

  #term(): number {
    const term = this.#next()
    this.#highestTerm = Math.max(this.#highestTerm, term)
    return term
  }

  #next(): number {
    return this.#bytes[this.#at++] ?? 0
  }
}

/**
 * Takes the rest of an object whose fields have all been written, so that a new field without an encoding does not
 * compile.
 */
function nothing(_rest: Record<string, never>): void {}
