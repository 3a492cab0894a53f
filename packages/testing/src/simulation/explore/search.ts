/** A breadth-first search, so that the trace to a violation is as short as possible. */
import type { Clock } from 'tenure'
import { Fingerprints, hashOf } from './fingerprints.ts'

/** The graph to search. States are stored as bytes, and states with the same bytes are one state. */
export interface SearchedModel<State> {
  readonly first: State
  /** Encodes a state as it is `ticks` later. The next call may overwrite the bytes. */
  write(state: State, ticks: number): Uint8Array
  read(bytes: Uint8Array, offset: number): State
  /** Visits every transition from a state, always in the same order, until `visit` returns false. */
  expand(state: State, visit: (next: State, ticks: number, violation: string | undefined) => boolean): void
  /** Returns a liveness violation that follows from a state, with its trace. Called for a sample of the states. */
  stuck?(state: State): Violation | undefined
  /** One in this many states is checked by `stuck`. Default: {@link stuckShare}. */
  readonly stuckShare?: number
}

/** The violated rule, and the index of each transition that was taken. */
export interface Violation {
  readonly what: string
  readonly trace: readonly number[]
}

/** The limits that end a search before it is complete. */
export interface SearchLimits {
  readonly seconds: number
  readonly states: number
}

/** The result of a search. */
export interface SearchResult {
  readonly complete: boolean
  readonly states: number
  readonly transitions: number
  /** The limit that ended the search early, or undefined if it is complete. */
  readonly bound?: keyof SearchLimits | undefined
  readonly violation?: Violation | undefined
}

/** One in this many states is checked for liveness. */
const stuckShare = 64
const breathAfter = 1_024

/** Searches every state that is reachable from the first. */
export async function search<State>(
  world: SearchedModel<State>,
  bounds: SearchLimits,
  clock: Clock,
): Promise<SearchResult> {
  const known = new Fingerprints()
  const queue = new SearchQueue()
  const path = new Path()
  const endMs = clock.monotonicMs() + bounds.seconds * 1000
  let transitions = 0
  let violation: SearchResult['violation']

  const visit = (next: State, ticks: number, from: number, move: number): void => {
    const bytes = world.write(next, ticks)
    const [low, high] = hashOf(bytes)
    if (!known.add(low, high)) return
    queue.push(bytes)
    path.add(from, move)
  }

  visit(world.first, 0, -1, 0)
  for (let at = 0; ; at += 1) {
    const encoded = queue.next()
    if (!encoded) break
    const found = { complete: false, states: at, transitions }
    if (known.size > bounds.states) return { ...found, bound: 'states' }
    if (at % breathAfter === breathAfter - 1) {
      if (clock.monotonicMs() > endMs) return { ...found, bound: 'seconds' }
      await new Promise((resolve) => setImmediate(resolve))
    }
    const state = world.read(encoded.bytes, encoded.offset)
    const stuck = at % (world.stuckShare ?? stuckShare) === 0 ? world.stuck?.(state) : undefined
    if (stuck) return { ...found, violation: { what: stuck.what, trace: [...path.to(at), ...stuck.trace] } }
    let move = 0
    world.expand(state, (next, ticks, broken) => {
      transitions += 1
      if (broken) violation = { what: broken, trace: [...path.to(at), move] }
      else visit(next, ticks, at, move)
      move += 1
      return violation === undefined
    })
    if (violation) return { complete: false, states: at, transitions, violation }
  }
  return { complete: true, states: known.size, transitions }
}

/** The states to expand, in first-in first-out order. */
class SearchQueue {
  readonly #chunks: { readonly bytes: Uint8Array; length: number }[] = []
  #offset = 0

  push(encoded: Uint8Array): void {
    const size = encoded.length + 2
    let chunk = this.#chunks.at(-1)
    if (!chunk || chunk.length + size > chunk.bytes.length) {
      chunk = { bytes: new Uint8Array(1 << 20), length: 0 }
      this.#chunks.push(chunk)
    }
    chunk.bytes[chunk.length] = encoded.length >> 8
    chunk.bytes[chunk.length + 1] = encoded.length & 255
    chunk.bytes.set(encoded, chunk.length + 2)
    chunk.length += size
  }

  next(): { readonly bytes: Uint8Array; readonly offset: number } | undefined {
    let chunk = this.#chunks[0]
    if (chunk && this.#offset >= chunk.length && this.#chunks.length > 1) {
      this.#chunks.shift()
      this.#offset = 0
      chunk = this.#chunks[0]
    }
    if (!chunk || this.#offset >= chunk.length) return undefined
    const offset = this.#offset + 2
    this.#offset = offset + ((chunk.bytes[offset - 2] ?? 0) << 8) + (chunk.bytes[offset - 1] ?? 0)
    return { bytes: chunk.bytes, offset }
  }
}

/** How each state was first reached. */
class Path {
  #from = new Int32Array(1 << 12)
  #move = new Uint16Array(1 << 12)
  #length = 0

  add(from: number, move: number): void {
    if (this.#length === this.#from.length) {
      const [wasFrom, wasMove] = [this.#from, this.#move]
      this.#from = new Int32Array(2 * this.#length)
      this.#move = new Uint16Array(2 * this.#length)
      this.#from.set(wasFrom)
      this.#move.set(wasMove)
    }
    this.#from[this.#length] = from
    this.#move[this.#length] = move
    this.#length += 1
  }

  to(state: number): number[] {
    const moves: number[] = []
    for (let at = state; at > 0; at = this.#from[at] ?? 0) moves.push(this.#move[at] ?? 0)
    return moves.toReversed()
  }
}
