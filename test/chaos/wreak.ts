import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../packages/tenure/src/simulation/random.ts'

/** Whatever can be hit. */
export interface Target {
  /** Taken by somebody who does something to it. */
  isBusy: boolean
  /** The term it leads, as far as it is known here. */
  readonly term: number | undefined
}

/** Something that happens to a target. It is over when the target is as before. */
export type Fault<T extends Target> = (target: T, random: Random) => Promise<unknown>

/** Faults for targets of one kind. */
export interface Deck {
  readonly faults: readonly string[]
  readonly targets: readonly Target[]
  /** The next fault, on one of the targets. */
  hit(target: Target, random: Random): { readonly fault: string; readonly done: Promise<unknown> }
}

/** Every fault once, and those that are named again once more, before any comes again. */
export function deckOf<T extends Target>(
  targets: readonly T[],
  faults: Readonly<Record<string, Fault<T>>>,
  again: readonly string[] = [],
): Deck {
  let left: string[] = []
  return {
    faults: Object.keys(faults),
    targets,
    hit(target, random) {
      if (left.length === 0) left = random.shuffle([...Object.keys(faults), ...again])
      const fault = left.pop() ?? ''
      const victim = targets.find((candidate) => candidate === target)
      return { fault, done: Promise.resolve(victim && faults[fault]?.(victim, random.fork())) }
    },
  }
}

/**
 * Hits one target after another, leaders most often. Gives how often each fault came. It goes on for up to twice the
 * time if a fault has not come yet, or if it is not enough in another way.
 */
export async function wreak(
  decks: readonly Deck[],
  options: {
    readonly random: Random
    readonly runMs: number
    /** So many are left alone at any time. */
    readonly leastFree: number
    /** Between two hits. */
    readonly everyMs: readonly [least: number, most: number]
    isEnough?(): boolean
    /** How likely somebody else is hit while there is no leader to hit. Default: always. */
    readonly otherwise?: number
  },
): Promise<Map<string, number>> {
  const { random, runMs, leastFree, everyMs, otherwise = 1 } = options
  const done = new Map(decks.flatMap(({ faults }) => faults.map((fault) => [fault, 0])))
  const running = new Set<Promise<void>>()
  const startedMs = performance.now()
  const goesOn = () => {
    const ranMs = performance.now() - startedMs
    if (ranMs < runMs) return true
    return ranMs < 2 * runMs && ([...done.values()].includes(0) || options.isEnough?.() === false)
  }
  while (goesOn()) {
    await delay(random.between(...everyMs))
    const free = decks.flatMap(({ targets }) => targets.filter(({ isBusy }) => !isBusy))
    if (free.length < leastFree) continue
    const leader = free.find(({ term }) => term !== undefined)
    if (!leader && !random.chance(otherwise)) continue
    const victim = leader && random.chance(0.8) ? leader : random.pick(free)
    victim.isBusy = true
    const hit = decks.find(({ targets }) => targets.includes(victim))?.hit(victim, random)
    const over = Promise.resolve(hit?.done).then(() => {
      victim.isBusy = false
      running.delete(over)
    })
    running.add(over)
    // Handled here: one that fails while others are waited for must not be a rejection that nobody saw.
    over.catch(() => {})
    if (hit) done.set(hit.fault, (done.get(hit.fault) ?? 0) + 1)
  }
  await Promise.all(running)
  return done
}
