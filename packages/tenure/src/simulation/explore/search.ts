/** The search: breadth first, so that what leads to a violation is as short as it can be. */
import type { Clock } from '../../clock.ts'
import { leadsAt } from '../../election-state.ts'
import { Course, noCounts, type ExploredCounts } from './course.ts'
import { Encoding } from './encoding.ts'
import { Fingerprints, hashOf } from './fingerprints.ts'
import { faultMoves, naturalMoves, type Move } from './moves.ts'
import { isProcess, leaseDurationMs, type Scene, type Setup } from './scene.ts'

/** What ends a search before it is complete. */
export interface Bounds {
  readonly seconds: number
  readonly states: number
}

/** What a search found. */
export interface Found {
  readonly complete: boolean
  readonly states: number
  readonly transitions: number
  readonly counts: ExploredCounts
  readonly violation?: { readonly what: string; readonly trace: readonly number[] } | undefined
}

/** From every so many states on it is looked whether somebody leads soon. */
const livenessShare = 64
const breathAfter = 4_096
/** Three leases take a few hundred. */
const mostSteps = 5_000

/** Explores everything that can follow from a scene. */
export async function search(first: Scene, setup: Setup, bounds: Bounds, clock: Clock): Promise<Found> {
  const encoding = new Encoding(setup)
  const known = new Fingerprints()
  const queue = new Queue()
  const path = new Path()
  const counts = noCounts()
  const endMs = clock.monotonicMs() + bounds.seconds * 1000
  let transitions = 0
  let violation: Found['violation']

  const visit = (next: Scene, ticks: number, from: number, move: number): void => {
    const bytes = encoding.write(next, ticks)
    const [low, high] = hashOf(bytes)
    if (!known.add(low, high)) return
    queue.push(bytes)
    path.add(from, move)
  }

  visit(first, 0, -1, 0)
  for (let state = 0; ; state += 1) {
    const encoded = queue.next()
    if (!encoded) break
    if (known.size > bounds.states) return { complete: false, states: state, transitions, counts }
    if (state % breathAfter === breathAfter - 1) {
      if (clock.monotonicMs() > endMs) return { complete: false, states: state, transitions, counts }
      await new Promise((resolve) => setImmediate(resolve))
    }
    const scene = encoding.read(encoded.bytes, encoded.offset)
    if (state % livenessShare === 0) {
      const what = stuck(scene, setup, encoding)
      if (what)
        return { complete: false, states: state, transitions, counts, violation: { what, trace: path.to(state) } }
    }
    expand(scene, setup, counts, (next, ticks, course, move) => {
      transitions += 1
      if (course.violation) violation ??= { what: course.violation, trace: [...path.to(state), move] }
      else visit(next, ticks, state, move)
      return violation === undefined
    })
    if (violation) return { complete: false, states: state, transitions, counts, violation }
  }
  return { complete: true, states: known.size, transitions, counts }
}

type Visit = (next: Scene, ticks: number, course: Course, number: number, move: Move) => boolean

/** Every transition from a scene, with every choice of what is left to chance. */
export function expand(
  scene: Scene,
  setup: Setup,
  counts: ExploredCounts,
  visit: Visit,
  tell?: (who: string, what: string) => void,
): void {
  let number = 0
  for (const move of [...naturalMoves(scene, setup), ...faultMoves(scene, setup)]) {
    const choices: number[] = []
    do {
      const course = new Course(counts, setup, tell)
      let drawn = 0
      const chance = () => setup.jitter[(choices[drawn++] ??= 0)] ?? 0
      const next = move.run({ setup, course, chance })
      if (move.fault) course.fault(move.fault)
      course.inspect(next)
      if (!visit(next, move.ticks, course, number++, move)) return
    } while (nextChoice(choices, setup.jitter.length))
  }
}

function nextChoice(choices: number[], options: number): boolean {
  for (let last = choices.pop(); last !== undefined; last = choices.pop()) {
    if (last + 1 < options) {
      choices.push(last + 1)
      return true
    }
  }
  return false
}

/** I10: when everybody runs and nothing goes wrong any more, somebody leads within three leases. */
function stuck(scene: Scene, setup: Setup, encoding: Encoding): string | undefined {
  let now = scene
  const counts = noCounts()
  let steps = 0
  for (let ticks = 0; ticks * setup.tickMs <= 3 * leaseDurationMs;) {
    if (++steps > mostSteps) return 'I11: an elector spins'
    const leads = now.slots.some((slot) => slot.life === 'running' && isProcess(slot) && leadsAt(slot.state, 0))
    if (leads) return undefined
    // What is late stays away.
    const timely = { ...now, messages: now.messages.filter(({ late }) => !late) }
    const [move] = naturalMoves(timely, setup)
    if (!move) return undefined
    const course = new Course(counts, setup)
    const next = move.run({ setup, course, chance: () => setup.jitter[0] ?? 0 })
    if (course.violation) return course.violation
    ticks += move.ticks
    now = encoding.read(encoding.write(next, move.ticks).slice(), 0)
  }
  return `I10: nobody leads within three leases, although nothing goes wrong any more`
}

/** States that wait to be looked at, first come, first served. */
class Queue {
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

/** How each state was reached first. */
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
