import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../packages/testing/src/simulation/random.ts'

/** Anything that a fault can hit. */
export interface Target {
  /** Whether a fault is currently using this target. */
  isBusy: boolean
  /** The term that the target leads, as known to the test. */
  readonly term: number | undefined
}

/** Injects a fault into a target. Resolves when the target has recovered. */
export type Fault<T extends Target> = (target: T, random: Random) => Promise<unknown>

/** The faults for targets of one kind. */
export interface Deck {
  readonly faults: readonly string[]
  readonly targets: readonly Target[]
  /** Starts the next fault on a target. */
  hit(target: Target, random: Random): { readonly fault: string; readonly done: Promise<unknown> }
}

/** Returns every fault once, and those in `again` twice, before any is repeated. */
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
 * Injects faults into one target after another, most often into leaders. Returns how many times each fault occurred.
 * Continues for up to twice as long if a fault has not occurred yet or if `isEnough` is not satisfied.
 */
export async function injectFaults(
  decks: readonly Deck[],
  options: {
    readonly random: Random
    readonly runMs: number
    /** A new fault starts only while at least this many targets are free. */
    readonly leastFree: number
    /** The time between two faults. */
    readonly everyMs: readonly [least: number, most: number]
    isEnough?(): boolean
    /** The probability that another target is hit while there is no leader. Default: 1. */
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
    // Handle the rejection here. A fault may fail while others are awaited, which would be an unhandled rejection.
    over.catch(() => {})
    if (hit) done.set(hit.fault, (done.get(hit.fault) ?? 0) + 1)
  }
  await Promise.all(running)
  return done
}
