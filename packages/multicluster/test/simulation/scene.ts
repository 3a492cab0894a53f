import type { LeaseRecord, LeaseStore } from '../../../tenure/src/engine/lease-store.ts'
import type { Clock } from '../../../tenure/src/common/clock.ts'
import type { Checker, Participant } from '../../../testing/src/simulation/checker.ts'
import { fairWeather, Link, linkKv, linkStore, linkSwap, LinkServer } from '../../../testing/src/simulation/link.ts'
import { Machine } from '../../../testing/src/simulation/machine.ts'
import type { Random } from '../../../testing/src/simulation/random.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import type { Timeline } from '../../../testing/src/simulation/timeline.ts'
import type { World } from '../../../testing/src/simulation/world.ts'
import { casStore, type CompareAndSwap } from '../../../tenure/src/store-kit/cas-store.ts'
import { memoryStore } from '../../../tenure/src/stores/memory/index.ts'
import { decodeRecord } from '../../../tenure/src/store-kit/record.ts'
import { swapStore } from '../../../tenure/src/store-kit/compare-and-swap-store.ts'

/** The global stores that the clusters can share. */
export const globalStores = ['swap-watched', 'cas-polled', 'memory'] as const
export type GlobalStore = (typeof globalStores)[number]

/** State shared by all parts of a simulated world. */
export interface Scene {
  readonly world: World
  readonly random: Random
  readonly timeline: Timeline
  readonly checker: Checker
  readonly leaseDurationMs: number
  readonly driftRatio: number
  readonly replays: boolean
  participants(): readonly Participant[]
}

/** Creates a machine whose clock is off by at most the allowed drift. */
export function newMachine({ world, random, driftRatio }: Scene): Machine {
  const off = random.chance(0.5) ? random.pick([-driftRatio, driftRatio]) : random.between(-driftRatio, driftRatio)
  return new Machine(world, random.fork(), 1 + off)
}

/** Creates the link from a machine to a server. */
export function newLink(
  { world, random, leaseDurationMs, replays }: Scene,
  machine: Machine,
  server: LinkServer,
): Link {
  const weather = fairWeather(random.magnitude(0.5, 20), replays ? leaseDurationMs / 15 : Infinity)
  return new Link({ world, random: random.fork(), machine, server, weather })
}

/** The global store's server, and the store as seen through a link. */
export interface Global {
  readonly server: LinkServer
  through(link: Link, clock: Clock): LeaseStore
}

/** Creates the global store. Every grant is checked against what all candidates believe. */
export function newGlobal(scene: Scene, kind: GlobalStore): Global {
  const server = new LinkServer(scene.world)
  const { checker } = scene
  const note = (record: LeaseRecord) => {
    if (record.released) checker.released(record, scene.participants())
    else checker.granted(record, scene.participants())
  }
  if (kind === 'swap-watched') {
    const swap = simulatedSwap()
    const watched: typeof swap = {
      ...swap,
      async swap(...args) {
        const swapped = await swap.swap(...args)
        if (swapped.ok && swapped.found.record) note(swapped.found.record)
        return swapped
      },
    }
    return { server, through: (link, clock) => swapStore(linkSwap(link, watched), clock) }
  }
  if (kind === 'cas-polled') {
    const kv = simulatedKv({ watch: false })
    const watched: CompareAndSwap = {
      get: kv.get,
      async putIfVersion(election, value, version, call) {
        const written = await kv.putIfVersion(election, value, version, call)
        if (typeof written === 'string') note({ ...decodeRecord(value), version: written })
        return written
      },
    }
    return { server, through: (link, clock) => casStore(linkKv(link, watched), { clock }) }
  }
  const memory = memoryStore({ clock: newMachine(scene).clock })
  const watched: LeaseStore = {
    ...memory,
    async acquire(claim, call) {
      const outcome = await memory.acquire(claim, call)
      if (outcome.ok) note(outcome.record)
      return outcome
    },
    async release(claim, call) {
      const outcome = await memory.release(claim, call)
      if (outcome.ok) note(outcome.record)
      return outcome
    },
  }
  return { server, through: (link) => linkStore(link, watched) }
}
