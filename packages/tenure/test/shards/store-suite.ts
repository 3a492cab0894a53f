/** Groups of shards on a real store, in real time. The fault runs with processes are in test/chaos. */
import { setTimeout as delay } from 'node:timers/promises'
import { test, type TestContext } from 'vitest'
import type { LeaseStore } from '../../src/index.ts'
import { createShards, type Shards } from '../../src/shards/index.ts'
import { cuttable } from '../cuttable-store.ts'

const patience = { timeout: 150_000, interval: 50 }
/** How long work takes to settle. It is longer than a coordinator waits between two changes. */
const settleMs = 1_500

let groups = 0

/** How a group of processes uses a store. */
interface ShardSuiteOptions {
  /** Opens the handle of the process with this identity. Default: like every other handle. */
  readonly openFor?: (identity: string) => LeaseStore | Promise<LeaseStore>
  /** Deletes the record of a group, with the assignment. Undefined if the store does not allow it. */
  removeRecord?(group: string): Promise<unknown>
  /** Long enough that a busy machine does not cost a process its seat. Default: 8 s. */
  readonly leaseDurationMs?: number
}

interface Process {
  readonly identity: string
  readonly shards: Shards
  /** The shards whose work has not settled. */
  readonly working: ReadonlySet<number>
  readonly line: { isCut: boolean }
}

interface Owner {
  readonly identity: string
  readonly token: number
}

/** A group of twelve shards, whose processes all run in this one. So their answers are from one moment. */
class Group {
  readonly name = `shards-${++groups}`
  readonly processes: Process[] = []
  /** The newest owner of each shard that was seen. */
  readonly owners = new Map<number, Owner>()
  readonly violations = new Set<string>()

  /** Notes who owns each shard now, and checks S1 and S2. */
  look(): ReadonlyMap<number, Owner> {
    const now = new Map<number, Owner>()
    for (const { identity, shards } of this.processes) {
      for (const { shard, token } of shards.status().owned) {
        const [other, last] = [now.get(shard), this.owners.get(shard)]
        if (other) this.violations.add(`S1: ${other.identity} and ${identity} own shard ${shard}`)
        const isNew = last?.identity !== identity || last.token !== token
        if (last && isNew && token <= last.token) this.violations.add(`S2: shard ${shard} has token ${token} again`)
        now.set(shard, { identity, token })
        this.owners.set(shard, { identity, token })
      }
    }
    // While a process holds its seat, its work keeps a shard from others.
    for (const { identity, shards, working } of this.processes) {
      if (shards.status().seat === undefined) continue
      for (const shard of working) {
        const owner = now.get(shard)?.identity ?? identity
        if (owner !== identity)
          this.violations.add(`S1: ${owner} owns shard ${shard}, on which ${identity} still works`)
      }
    }
    return now
  }

  /** Returns how many shards each process owns, in the order in which they have joined. */
  loads(): string {
    const now = [...this.look().values()]
    const loadOf = (identity: string) => now.filter((owner) => owner.identity === identity).length
    return this.processes.map(({ identity }) => `${identity}: ${loadOf(identity)}`).join(', ')
  }
}

/** Tests of one store. `open` opens one more handle to the same data. */
export function shardSuite(
  name: string,
  open: () => LeaseStore | Promise<LeaseStore>,
  { openFor = open, removeRecord, leaseDurationMs = 8_000 }: ShardSuiteOptions = {},
): void {
  const scene = ({ expect, onTestFinished }: TestContext) => {
    const group = new Group()
    const sampling = setInterval(() => group.look(), 20)
    onTestFinished(() => clearInterval(sampling))
    const join = async (identity: string): Promise<Process> => {
      const handle = await openFor(identity)
      const line = { isCut: false }
      const working = new Set<number>()
      const shards = createShards({
        store: cuttable(handle, line),
        group: group.name,
        shards: 12,
        identity,
        leaseDurationMs,
        drainTimeoutMs: 10_000,
        log: false,
        async work({ shard, signal }) {
          working.add(shard)
          if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
          await delay(settleMs)
          working.delete(shard)
        },
      })
      const process: Process = { identity, shards, working, line }
      group.processes.push(process)
      onTestFinished(async () => {
        line.isCut = false
        await shards.stop()
        await handle.close?.()
      })
      void shards.start().catch(() => undefined)
      return process
    }
    const settle = (loads: string) => expect.poll(() => group.loads(), patience).toBe(loads)
    return { group, join, settle }
  }
  const timeout = 500_000

  const handsOver = `processes on ${name} share shards, hand them over, and take over those of a process that is cut off`
  test.concurrent(handsOver, { timeout }, async (context) => {
    const { expect } = context
    const { group, join, settle } = scene(context)
    const both = [await join('a'), await join('b')]
    await settle('a: 6, b: 6')
    const before = new Map(group.owners)
    // A coordinator learns of its own changes at once, so the other one leaves.
    const isCoordinator = ({ shards }: Process) => shards.status().isCoordinator
    const leaver = both.find((one) => !isCoordinator(one)) ?? expect.unreachable('both coordinate')
    const rest = both.find((one) => one !== leaver) ?? expect.unreachable('nobody is left')
    const loads = (load: number) => both.map((one) => `${one.identity}: ${one === rest ? load : 0}`).join(', ')
    await leaver.shards.stop()
    await settle(loads(12))
    for (const [shard, { identity, token }] of before) {
      // A shard that did not move keeps its token.
      if (identity === leaver.identity) expect(group.owners.get(shard)?.token).toBeGreaterThan(token)
      else expect(group.owners.get(shard)).toEqual({ identity, token })
    }
    await join('c')
    await settle(`${loads(6)}, c: 6`)
    rest.line.isCut = true
    await settle(`${loads(0)}, c: 12`)
    expect([...group.violations]).toEqual([])
  })

  const recovers = `processes on ${name} own all shards again, with higher tokens, after the assignment was deleted`
  test.skipIf(removeRecord === undefined).concurrent(recovers, { timeout }, async (context) => {
    const { expect } = context
    const { group, join, settle } = scene(context)
    await join('a')
    await join('b')
    await settle('a: 6, b: 6')
    const before = new Map(group.owners)
    await removeRecord?.(group.name)
    const isHigher = () => [...group.owners].every(([shard, { token }]) => token > (before.get(shard)?.token ?? NaN))
    await expect.poll(isHigher, patience).toBe(true)
    await settle('a: 6, b: 6')
    expect([...group.violations]).toEqual([])
  })
}
