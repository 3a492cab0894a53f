/** Processes that share shards on one store, each behind its own network, while faults are injected. */
import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { createFence } from 'tenure/fencing'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import { checkOwners, type OwnersCheck } from './check-owners.ts'
import { parseShardLog } from './shard-logs.ts'

/** The options of a process. */
export interface ShardMemberOptions {
  readonly url: string
  readonly group: string
  readonly identity: string
  readonly logPath: string
  readonly shards: number
  /** The number of keys for which the process asks and writes. */
  readonly keys: number
  readonly leaseDurationMs: number
  /** Whether a guard releases the leases of the process as soon as it has crashed. */
  readonly releaseOnCrash: boolean
  /** How long all work takes to settle. Undefined: a few milliseconds, and occasionally more than a second. */
  readonly settleMs: number | undefined
  /** A folder with another build of the library. Undefined: the build of this repository. */
  readonly library: string | undefined
}

/** What a process sends to the test. Its log alone decides about violations. */
export interface ShardMessage {
  /** It can leave cleanly from now on. */
  readonly isReady?: boolean
  readonly owned?: readonly (readonly [shard: number, token: number])[]
  readonly isCoordinator?: boolean
  readonly error?: string
  readonly keys?: number
  readonly write?: { readonly shard: number; readonly token: number }
}

/** Options of {@link ShardFleet}. */
export interface ShardFleetOptions {
  readonly size: number
  readonly shards: number
  readonly keys: number
  readonly leaseDurationMs: number
  /** The port of the server. Undefined if the store has none. */
  readonly port?: number | undefined
  /** The store's URL for a client that reaches the server at this port. */
  urlAt(port: number): string
  readonly releaseOnCrash?: boolean | undefined
  readonly settleMs?: number | undefined
  readonly library?: string | undefined
}

/** A place in the fleet: one process at a time, always behind the same network. */
export interface Slot {
  /** Undefined if the store has no server. */
  readonly network: Proxy | undefined
  child: ChildProcess | undefined
  isReady: boolean
  isPaused: boolean
  isCoordinator: boolean
  owned: ReadonlyMap<number, number>
}

/** The processes of one group. */
export class ShardFleet {
  readonly group = `shards-${randomUUID()}`
  readonly slots: Slot[] = []
  readonly folder = mkdtempSync(join(tmpdir(), 'tenure-chaos-shards-'))
  readonly errors: string[] = []
  /** Processes that did not end as they should. */
  readonly badEnds: string[] = []
  readonly options: ShardFleetOptions
  /** Every grant that a process has reported, as `shard token`. */
  readonly grants = new Set<string>()
  accepted = 0
  refused = 0
  lives = 0
  readonly #fences: readonly ReturnType<typeof createFence>[]

  private constructor(options: ShardFleetOptions) {
    this.options = options
    this.#fences = Array.from({ length: options.shards }, (_, shard) => createFence({ resource: `shard-${shard}` }))
  }

  static async start(options: ShardFleetOptions): Promise<ShardFleet> {
    const fleet = new ShardFleet(options)
    onTestFinished(async ({ task }) => {
      for (const slot of fleet.slots) await fleet.kill(slot)
      for (const { network } of fleet.slots) network?.stop()
      if (task.result?.state !== 'fail') rmSync(fleet.folder, { recursive: true, force: true, maxRetries: 3 })
    })
    for (let index = 0; index < options.size; index += 1) {
      const network = options.port === undefined ? undefined : await startProxy(options.port)
      fleet.slots.push({
        network,
        child: undefined,
        isReady: false,
        isPaused: false,
        isCoordinator: false,
        owned: new Map(),
      })
    }
    return fleet
  }

  get running(): readonly Slot[] {
    return this.slots.filter(({ child }) => child)
  }

  get coordinator(): Slot | undefined {
    return this.running.find(({ isCoordinator, isPaused }) => isCoordinator && !isPaused)
  }

  /** Starts a process in an empty slot. */
  join(slot: Slot): void {
    if (slot.child) return
    const { shards, keys, leaseDurationMs, releaseOnCrash = false, settleMs, library } = this.options
    const identity = `member-${(this.lives += 1)}`
    const options: ShardMemberOptions = {
      url: this.options.urlAt(slot.network?.port ?? 0),
      group: this.group,
      identity,
      logPath: join(this.folder, identity),
      shards,
      keys,
      leaseDurationMs,
      releaseOnCrash,
      settleMs,
      library,
    }
    const child = fork(join(import.meta.dirname, 'shard-member.mjs'), [JSON.stringify(options)], { execArgv: [] })
    Object.assign(slot, { child, isReady: false, isPaused: false, isCoordinator: false, owned: new Map() })
    child.on('message', (message: ShardMessage) => this.#take(slot, child, message))
    child.once('exit', (code, signal) => {
      if (signal !== 'SIGKILL' && code !== 0) this.badEnds.push(`${identity} ended with ${signal ?? code}`)
      if (slot.child === child) Object.assign(slot, { child: undefined, isCoordinator: false, owned: new Map() })
    })
  }

  kill(slot: Slot): Promise<void> {
    return this.#end(slot, 'SIGKILL')
  }

  /** Ends a process cleanly. It must hand its shards over and exit with code 0. */
  async leave(slot: Slot): Promise<void> {
    await vi.waitUntil(() => slot.isReady || !slot.child, { timeout: 60_000, interval: 20 })
    await this.#end(slot, 'SIGTERM')
  }

  /** Returns how long it takes from now until every shard is owned and loads differ by at most one. */
  settledMs(withinMs: number): Promise<number> {
    return this.#reached('the loads are not fair', withinMs, () => this.isSettled())
  }

  /** Returns how long it takes from now until every shard is owned. */
  ownedMs(withinMs: number): Promise<number> {
    return this.#reached('not every shard is owned', withinMs, () => this.isOwned())
  }

  async #reached(otherwise: string, withinMs: number, condition: () => boolean): Promise<number> {
    const startedMs = performance.now()
    await vi.waitUntil(condition, { timeout: withinMs, interval: 20 }).catch(() => {
      const loads = this.running.map(({ owned }) => owned.size)
      throw new Error(`${otherwise} after ${withinMs} ms: ${loads.join(', ')}. Logs in ${this.folder}`)
    })
    return performance.now() - startedMs
  }

  isSettled(): boolean {
    const loads = this.running.map(({ owned }) => owned.size)
    return this.isOwned() && Math.max(...loads) - Math.min(...loads) <= 1
  }

  /** Whether every shard has an owner. */
  isOwned(): boolean {
    const owned = new Set(this.running.flatMap((slot) => [...slot.owned.keys()]))
    return owned.size === this.options.shards
  }

  /** Returns how many keys each process owns. */
  async keyCounts(): Promise<number[]> {
    return Promise.all(
      this.running.map(async ({ child }) => {
        if (!child) return 0
        child.send('count')
        for (;;) {
          const [message] = (await once(child, 'message')) as [ShardMessage]
          if (message.keys !== undefined) return message.keys
        }
      }),
    )
  }

  /** Checks the logs of all processes, including the dead ones. */
  check(): OwnersCheck {
    const logs = readdirSync(this.folder).map(
      (name) => [name, parseShardLog(readFileSync(join(this.folder, name), 'utf8'))] as const,
    )
    return checkOwners(new Map(logs))
  }

  async #end({ child }: Slot, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (!child) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }

  #take(slot: Slot, child: ChildProcess, { isReady, owned, isCoordinator, error, write }: ShardMessage): void {
    if (error !== undefined) this.errors.push(error)
    if (write) this.#write(write)
    if (slot.child !== child) return
    if (isReady) slot.isReady = true
    if (isCoordinator !== undefined) slot.isCoordinator = isCoordinator
    if (!owned) return
    slot.owned = new Map(owned)
    for (const [shard, token] of owned) this.grants.add(`${shard} ${token}`)
  }

  #write({ shard, token }: { readonly shard: number; readonly token: number }): void {
    try {
      this.#fences[shard]?.check(token)
      this.accepted += 1
    } catch {
      this.refused += 1
    }
  }
}
