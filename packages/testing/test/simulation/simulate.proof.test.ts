import { describe, expect, test } from 'vitest'
import {
  memoryStore,
  type Clock,
  type CompareAndSwap,
  type LeaseStore,
  type Outcome,
} from '../../../tenure/src/index.ts'
import { simulate, type SimulationOptions } from '../../src/simulation/index.ts'
import { engineMutants } from './engine-mutants.ts'

describe('the simulator', () => {
  test('the simulator repeats a run for the same seed and gives a different run for another seed', async () => {
    const [first, again, other] = [
      await simulate({ seed: 11 }),
      await simulate({ seed: 11 }),
      await simulate({ seed: 12 }),
    ]
    expect(again.counts).toEqual(first.counts)
    expect(other.counts).not.toEqual(first.counts)
  })

  test('the simulator prints the seed and a timeline when an invariant breaks', async () => {
    const report = await simulate({ seed: 1, faults: ['crash', 'pause'], store: forgetful })
    expect(report.ok).toBe(false)
    expect(String(report)).toMatch(/^seed 1 violates\nI\d+: /)
    expect(String(report)).toMatch(/\d+\.\d{3} s {2}store +grants term \d+ to node-\d/)
    expect(String(report)).toContain(`*** ${report.violations[0]}`)
  })

  test('the simulator runs a store that the user provides', async () => {
    const report = await simulate({ seed: 3, store: (clock) => memoryStore({ clock }) })
    expect(report.ok, String(report)).toBe(true)
    expect(report.counts.handovers).toBeGreaterThan(0)
  })

  test('the simulator detects a compare-and-swap backend that never compares', async () => {
    const backend = (compares: boolean) => (): CompareAndSwap => {
      const values = new Map<string, { value: string; version: string }>()
      let writes = 0
      return {
        get: async (election) => values.get(election),
        putIfVersion: async (election, value, version) => {
          if (compares && values.get(election)?.version !== version) return undefined
          values.set(election, { value, version: String(++writes) })
          return String(writes)
        },
      }
    }
    const sound = await simulate({ seed: 7, hours: 0.2, backend: backend(true) })
    expect(sound.ok, String(sound)).toBe(true)
    expect((await simulate({ seed: 7, hours: 0.2, backend: backend(false) })).ok).toBe(false)
  })

  test.each([{}, { seed: 1.5 }, { seed: 1, store: 'file' }, { seed: 1, faults: ['crashs'] }, { seed: 1, hours: 0 }])(
    'simulate rejects the options %j',
    async (options) => {
      await expect(simulate(options as SimulationOptions)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    },
  )

  test('fencing holds in the simulator when clocks drift by more than the electors allow for', async () => {
    const reports = []
    for (let seed = 1; seed <= 10; seed += 1) reports.push(await simulate({ seed, clocksBeyondBound: true }))
    for (const report of reports) expect(report.ok, String(report)).toBe(true)
    const fenced = reports.reduce((sum, { counts }) => sum + counts.fencedWrites, 0)
    expect(fenced).toBeGreaterThan(0)
  })

  const settings = engineMutants.flatMap((mutant) => (mutant.in ? [{ name: mutant.name, options: mutant.in }] : []))
  test.each(settings)(
    'the simulator reports no violation in the real engine with the options of the mutant "$name"',
    { timeout: 120_000 },
    async ({ options }) => {
      for (let seed = 1; seed <= 4; seed += 1) {
        const report = await simulate({ faultEveryMs: 25_000, ...options, seed })
        expect(report.ok, String(report)).toBe(true)
      }
    },
  )

  test('the simulator reports no violation when leaders crash, so a successor always leads in time', async () => {
    for (const store of ['memory', 'swap-watched', 'cas-watched', 'cas-polled'] as const) {
      for (const preference of [false, true]) {
        const options = { seed: 21, store, faults: ['crash'], faultEveryMs: 120_000, hours: 2, preference } as const
        const report = await simulate(options)
        expect(report.ok, String(report)).toBe(true)
        expect(report.counts.crashes).toBeGreaterThan(20)
      }
    }
  })

  test('a successor leads within two seconds in the simulator when leaders with a guard crash', async () => {
    for (const store of ['memory', 'swap-watched', 'cas-watched'] as const) {
      const options = {
        store,
        faults: ['crash'] as const,
        faultEveryMs: 60_000,
        hours: 2,
        slow: false,
        preference: false,
      }
      const report = await simulate({ seed: 21, ...options, releaseOnCrash: true })
      expect(report.ok, String(report)).toBe(true)
      expect(report.counts.crashReleases).toBeGreaterThan(20)
    }
  })

  test(
    'no invariant breaks in 50 fleet-hours of processes that say who should lead',
    { timeout: 300_000 },
    async () => {
      const seen = { handOvers: 0, unfit: 0 }
      for (let seed = 1; seed <= 50; seed += 1) {
        const report = await simulate({ seed, preference: true, faultEveryMs: 40_000 })
        expect(report.ok, String(report)).toBe(true)
        seen.handOvers += report.counts.handOvers
        seen.unfit += report.counts.unfit
      }
      expect(seen.handOvers).toBeGreaterThan(25)
      expect(seen.unfit).toBeGreaterThan(50)
    },
  )

  test('no invariant breaks in 50 fleet-hours in which each process has a guard', { timeout: 300_000 }, async () => {
    let releases = 0
    for (let seed = 1; seed <= 50; seed += 1) {
      const report = await simulate({ seed, releaseOnCrash: true, faultEveryMs: 40_000 })
      expect(report.ok, String(report)).toBe(true)
      releases += report.counts.crashReleases
    }
    expect(releases).toBeGreaterThan(50)
  })

  test('the leader never changes in a simulation without faults', async () => {
    for (const store of ['memory', 'swap-watched', 'cas-watched', 'cas-polled'] as const) {
      const report = await simulate({ seed: 2, store, faults: [] })
      expect(report.ok, String(report)).toBe(true)
      expect(report.counts.grants).toBe(1)
    }
  })
})

/** A store that frees every lease after half of its recorded duration. */
function forgetful(clock: Clock): LeaseStore {
  const store = memoryStore({ clock })
  const half = <T extends { leaseDurationMs: number }>(claim: T): T => ({
    ...claim,
    leaseDurationMs: claim.leaseDurationMs / 2,
  })
  const boast = (outcome: Outcome): Outcome => {
    if (!outcome.ok) return outcome
    const { record, validForMs } = outcome
    return { ok: true, record: { ...record, leaseDurationMs: record.leaseDurationMs * 2 }, validForMs: validForMs * 2 }
  }
  return {
    ...store,
    acquire: async (claim, call) => boast(await store.acquire(half(claim), call)),
    renew: async (claim, call) => boast(await store.renew(half(claim), call)),
  }
}
