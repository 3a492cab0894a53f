import { callWithin } from '@tenure/internal/bound'
import { Elector, type Clock, type LeaseStore } from 'tenure'
import { activeElection } from './active-store.ts'
import type { MoveSource } from './move-storage.ts'
import type { ServerStorage } from './server-storage.ts'
import type { Loaded, StorageHead } from './storage.ts'

/** How long to wait for the election. It is long enough to notice that a dead replica does not renew its lease. */
const electionTimeoutMs = 20_000
const leaseDurationMs = 3_000

/** The options of {@link SharedSource}. */
export interface SharedSourceOptions {
  readonly storage: ServerStorage
  readonly leases: LeaseStore
  readonly clock: Clock
  readonly identity: string
}

/**
 * Data that replicas share, as the source of a move. A mark alone is not enough, because the active replica confirms
 * renewals from memory, and would continue while the target lets others lead.
 *
 * 1. The process that moves the data is elected in place of the active replica. By then no other replica believes that
 *    it is active.
 * 2. It marks the head. If it is still elected after that, nobody else was elected in between.
 * 3. From the mark on no replica becomes active, because a swap of the head is fenced.
 *
 * All steps run each time, even if the mark is already there: the process that set it may have stopped right after
 * that.
 */
export class SharedSource implements MoveSource {
  readonly #options: SharedSourceOptions
  readonly #elector: Elector

  constructor(options: SharedSourceOptions) {
    const { leases: store, clock, identity } = options
    this.#options = options
    this.#elector = new Elector({ store, election: activeElection, identity, leaseDurationMs, clock })
  }

  head(): Promise<StorageHead> {
    return this.#options.storage.head()
  }

  isRetired(): Promise<boolean> {
    return this.#options.storage.isRetired()
  }

  async retire(movedTo: string): Promise<void> {
    const leadership = await this.#lead()
    await this.#options.storage.retire(movedTo)
    if (!leadership.isLeader())
      throw new Error('Another replica became active in the meantime. Stop all replicas, and run this again.')
  }

  load(): Promise<Loaded> {
    return this.#options.storage.load()
  }

  async close(): Promise<void> {
    const { leases, storage } = this.#options
    await this.#elector.stop()
    await leases.close?.()
    await storage.close()
  }

  async #lead() {
    const late = () => {
      const holder = this.#elector.leader()?.holder ?? 'another replica'
      return new Error(`${holder} is active on this data. Stop all replicas, and run this again.`)
    }
    return callWithin(undefined, { clock: this.#options.clock, timeoutMs: electionTimeoutMs, late }, (signal) => {
      this.#elector.start()
      return this.#elector.waitForLeadership({ signal })
    })
  }
}
