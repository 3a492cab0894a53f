import type { Clock } from '../../../tenure/src/common/clock.ts'
import type { LeaseStore } from '../../../tenure/src/engine/lease-store.ts'
import { linkKv, linkStore, linkSwap, LinkServer, type Link } from '../../../testing/src/simulation/link.ts'
import { Machine } from '../../../testing/src/simulation/machine.ts'
import type { Random } from '../../../testing/src/simulation/random.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { simulatedSwap } from '../../../testing/src/simulation/simulated-swap.ts'
import type { Timeline } from '../../../testing/src/simulation/timeline.ts'
import type { World } from '../../../testing/src/simulation/world.ts'
import { casStore } from '../../../tenure/src/store-kit/cas-store.ts'
import { memoryStore } from '../../../tenure/src/stores/memory/index.ts'
import { swapStore } from '../../../tenure/src/store-kit/compare-and-swap-store.ts'
import type { History } from './history.ts'
import { StorageServer } from './storage-server.ts'

/** The lease stores with which the active replica can be elected. */
export const leaseStores = ['swap-watched', 'cas-polled', 'memory'] as const
export type LeaseStoreKind = (typeof leaseStores)[number]

/** State shared by all processes of a world. */
export interface Scene {
  readonly world: World
  readonly random: Random
  readonly timeline: Timeline
  readonly history: History
  readonly leaseMs: number
  readonly driftRatio: number
  /** Whether followers keep a copy of the groups. */
  readonly keepsCopy: boolean
  readonly server: BackendServer
}

/** A machine whose clock drifts by at most the allowed ratio. */
export function newMachine({ world, random, driftRatio }: Pick<Scene, 'world' | 'random' | 'driftRatio'>): Machine {
  const off = random.chance(0.5) ? random.pick([-driftRatio, driftRatio]) : random.between(-driftRatio, driftRatio)
  return new Machine(world, random.fork(), 1 + off)
}

/** The one server of a world, with the records of groups and the lease of the active replica. */
export interface BackendServer {
  readonly weather: LinkServer
  readonly storage: StorageServer
  /** How long it takes to load a page, in ms. */
  pageMs: number
  leases(link: Link, clock: Clock): LeaseStore
  /** Removes the lease of the active replica, as an operator would. */
  loseLeaseKey(): void
}

export function newServer(scene: Omit<Scene, 'server'>, kind: LeaseStoreKind): BackendServer {
  const common = {
    weather: new LinkServer(scene.world),
    storage: new StorageServer((what) => scene.history.violate('terms', what)),
    pageMs: 0,
  }
  if (kind === 'swap-watched') {
    const swap = simulatedSwap()
    const leases = (link: Link, clock: Clock) => swapStore(linkSwap(link, swap), clock)
    return { ...common, leases, loseLeaseKey: () => swap.delete('active') }
  }
  if (kind === 'cas-polled') {
    const kv = simulatedKv({ watch: false })
    const leases = (link: Link, clock: Clock) => casStore(linkKv(link, kv), { clock })
    return { ...common, leases, loseLeaseKey: () => kv.delete('active') }
  }
  const memory = memoryStore({ clock: newMachine(scene).clock })
  const leases = (link: Link) => linkStore(link, memory)
  return { ...common, leases, loseLeaseKey: () => memory.delete('active') }
}
