import { ok } from 'node:assert/strict'
import { leaseMs, ShardFleet, type CallFate, type ShardProcess, type StoreKind } from './shard-fleet.ts'

/** The outcome of one run with random faults. */
export interface FaultRun {
  readonly faults: number
  /** How often a shard got a new owner. */
  readonly grants: number
  /** How long the fleet took to settle after the last fault, in leases. */
  readonly settledLeases: number
}

/**
 * Runs a fleet in virtual time with faults that the seed decides: slow, lost, and failed calls, stalls, partitions,
 * crashes, processes that leave and join, work that settles late, and deleted records. The fleet checks S1 and S2 every
 * 100 ms and after each stall. Rejects if they are violated, if the fleet does not settle after the last fault (S4), or if
 * a process does not stop in bounded time.
 */
export async function runWithFaults(kind: StoreKind, seed: number): Promise<FaultRun> {
  const random = randomOf(seed)
  const fleet = new ShardFleet(kind, 5, { drainTimeoutMs: 20_000, maxMoves: 2, maxMembers: 6 })
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)]
  let joined = 0
  let lossRatio = 0
  const fateOf = (): CallFate => {
    const toMs = random() < 0.02 ? random() * leaseMs : random() * 300
    const fromMs = random() < 0.01 ? random() * leaseMs : random() * 300
    const lost = random() < lossRatio ? (random() < 0.5 ? 'request' : 'reply') : undefined
    return { toMs, fromMs, ...(lost && { lost }), error: random() < lossRatio / 2 }
  }
  const join = () => {
    joined += 1
    const process = fleet.join(`node-${joined}`)
    process.fateOf = fateOf
    // Some work takes longer than the drain timeout.
    process.settleMs = random() < 0.3 ? random() * 1.6 * leaseMs : random() * 500
    process.holdMs = random() < 0.3 ? random() * leaseMs : random() * 500
  }
  for (let count = 0; count < 3; count += 1) join()
  const rest = () => fleet.advance(random() * leaseMs)
  let lastDeletedMs = 0
  const actions: Record<string, (process: ShardProcess) => Promise<void> | void> = {
    async stall(process) {
      fleet.stall(process)
      await fleet.advance(random() * 2 * leaseMs)
      fleet.resume(process)
      // By the clock, before any timer of the process fires.
      fleet.check()
    },
    async cut(process) {
      process.isCut = true
      await fleet.advance(random() * 2 * leaseMs)
      process.isCut = false
    },
    crash(process) {
      if (fleet.live.length < 3) return
      fleet.crash(process)
      join()
    },
    leave(process) {
      if (fleet.live.length < 3) return
      void process.shards.stop().then(() => (process.hasStopped = true))
      if (random() < 0.7) join()
    },
    delete() {
      const nowMs = fleet.clock.monotonicMs()
      // Reports of the members remember terms, so they need time to be written again.
      if (nowMs - lastDeletedMs < 6 * leaseMs) return
      lastDeletedMs = nowMs
      fleet.delete(random() < 0.5 ? 'sessions' : `sessions.member.${Math.floor(random() * 4)}`)
    },
    lossy: () => void (lossRatio = random() < 0.5 ? 0 : random() * 0.3),
  }
  const names = Object.keys(actions)
  const faults = 12
  for (let count = 0; count < faults; count += 1) {
    await rest()
    const process = pick(fleet.live)
    const action = actions[pick(names) ?? '']
    if (process && action) await action(process)
  }
  lossRatio = 0
  for (const process of fleet.live) process.fateOf = () => ({ toMs: 10, fromMs: 10 })
  const settledMs = await fleet.until(() => fleet.isSettled(), 12 * leaseMs)
  await fleet.advance(2 * leaseMs)
  for (const process of fleet.live) void process.shards.stop().then(() => (process.hasStopped = true))
  await fleet.until(() => fleet.live.length === 0, 6 * leaseMs)
  // Work that has not settled in time may outlive stop().
  await fleet.advance(leaseMs)
  const hasCrashed = fleet.processes.some((process) => process.hasCrashed)
  // I11: no other timer does. The timers of a crashed process never fire.
  ok(hasCrashed || fleet.clock.timers === 0, `${fleet.clock.timers} timers outlive stop()`)
  const grants = fleet.processes.flatMap(({ changes }) => changes.filter(({ type }) => type === 'gained')).length
  return { faults, grants, settledLeases: settledMs / leaseMs }
}

/** A small generator of pseudorandom numbers (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
