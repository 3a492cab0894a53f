/** Groups of shards on a real store, in real time. The fault runs with processes are in test/chaos. */
import { test, type TestContext } from 'vitest'
import type { LeaseStore } from '../../src/index.ts'
import { createShards } from '../../src/shards/index.ts'
import { cuttable } from '../cuttable-store.ts'

const count = 12
const patience = { timeout: 90_000, interval: 50 }

let groups = 0

/** How a group of processes uses a store. */
interface ShardSuiteOptions {
  /** Opens the handle of the process with this identity. Default: like every other handle. */
  readonly openFor?: (identity: string) => LeaseStore | Promise<LeaseStore>
  /** Deletes the record of a group, with the assignment. Undefined if the store does not allow it. */
  removeRecord?(group: string): Promise<unknown>
  /** Long enough that a busy machine does not cost a process its seat. Default: 5 s. */
  readonly leaseDurationMs?: number
}

interface Owner {
  readonly identity: string
  readonly token: number
}

/** Tests of one store. `open` opens one more handle to the same data. */
export function shardSuite(
  name: string,
  open: () => LeaseStore | Promise<LeaseStore>,
  { openFor = open, removeRecord, leaseDurationMs = 5_000 }: ShardSuiteOptions = {},
): void {
  const scene = ({ expect, onTestFinished }: TestContext) => {
    const group = `shards-${++groups}`
    const processes = new Map<string, { isCut: boolean; shards: ReturnType<typeof createShards> }>()
    /** The newest owner of each shard that was seen. */
    const owners = new Map<number, Owner>()
    const violations: string[] = []
    // All processes of this group run in this one, so their answers are from one moment.
    const look = () => {
      const now = new Map<number, Owner>()
      for (const [identity, { shards }] of processes) {
        for (const { shard, token } of shards.status().owned) {
          const [other, last] = [now.get(shard), owners.get(shard)]
          if (other) violations.push(`S1: ${other.identity} and ${identity} own shard ${shard}`)
          const isNew = last?.identity !== identity || last.token !== token
          if (last && isNew && token <= last.token)
            violations.push(`S2: token ${token} of shard ${shard} after ${last.token}`)
          now.set(shard, { identity, token })
          owners.set(shard, { identity, token })
        }
      }
      return now
    }
    const sampling = setInterval(look, 10)
    onTestFinished(() => clearInterval(sampling))
    const join = async (identity: string) => {
      const handle = await openFor(identity)
      const line = { isCut: false }
      const shards = createShards({
        store: cuttable(handle, line),
        group,
        shards: count,
        identity,
        leaseDurationMs,
        drainTimeoutMs: 10_000,
        log: false,
        work: ({ signal }) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
      })
      const process = Object.assign(line, { shards })
      processes.set(identity, process)
      onTestFinished(async () => {
        process.isCut = false
        await shards.stop()
        await handle.close?.()
      })
      void shards.start().catch(() => undefined)
      return process
    }
    const loads = () => {
      const now = [...look().values()]
      return [...processes.keys()].map((identity) => now.filter((owner) => owner.identity === identity).length)
    }
    const settle = (...expected: readonly number[]) => expect.poll(loads, patience).toEqual(expected)
    return { group, join, settle, owners, violations }
  }

  test.concurrent(
    `processes on ${name} share shards, hand them over, and take over those of a process that is cut off`,
    {
      timeout: 300_000,
    },
    async (context) => {
      const { expect } = context
      const { join, settle, owners, violations } = scene(context)
      const ada = await join('a')
      const bob = await join('b')
      await settle(6, 6)
      const before = new Map(owners)
      await ada.shards.stop()
      await settle(0, 12)
      for (const [shard, { identity, token }] of before) {
        // A shard that did not move keeps its token.
        if (identity === 'a') expect(owners.get(shard)?.token).toBeGreaterThan(token)
        else expect(owners.get(shard)).toEqual({ identity, token })
      }
      await join('c')
      await settle(0, 6, 6)
      bob.isCut = true
      await settle(0, 0, 12)
      expect(violations).toEqual([])
    },
  )

  test.skipIf(removeRecord === undefined).concurrent(
    `processes on ${name} own all shards again, with higher tokens, after the assignment was deleted`,
    {
      timeout: 300_000,
    },
    async (context) => {
      const { expect } = context
      const { group, join, settle, owners, violations } = scene(context)
      await join('a')
      await join('b')
      await settle(6, 6)
      const before = new Map(owners)
      await removeRecord?.(group)
      const isHigher = () => [...owners].every(([shard, { token }]) => token > (before.get(shard)?.token ?? NaN))
      await expect.poll(isHigher, patience).toBe(true)
      await settle(6, 6)
      expect(violations).toEqual([])
    },
  )
}
