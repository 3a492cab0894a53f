import type { ExploreOptions } from '../../src/simulation/explore.ts'
import type { EngineMutant } from './engine-mutants.ts'

const guard = 'engine/guard/guard.ts'
const elector = 'engine/elector.ts'

/** A mutant that the options of `explore()` also reveal. The model has no clones. */
export interface GuardMutant extends EngineMutant {
  readonly explored?: ExploreOptions
}

const guarded: ExploreOptions = { releaseOnCrash: true, watch: false, leaseTicks: 6 }

/** In a small fleet, the same process leads more often. */
const few = { releaseOnCrash: true, electors: 2, faultEveryMs: 10_000, hours: 0.5 } as const

/** Mutants of the guard and of the registrations of electors, and the simulation options that reveal them. */
export const guardMutants: readonly GuardMutant[] = [
  {
    name: 'release at the end of the pipe without looking at the process',
    file: guard,
    find: "if (state.phase !== 'ended' || status !== 'gone') return state",
    replace: "if (state.phase !== 'ended') return state",
    in: { releaseOnCrash: true, faults: ['closed-pipe'] },
    explored: { ...guarded, faults: ['closed-pipe'] },
  },
  {
    name: 'release the newest record instead of the registered attempt',
    file: guard,
    find: 'return record.attempt === attempt && record.holder === holder',
    replace: 'return record.holder === holder || record.attempt === attempt',
    also: [
      { file: guard, find: 'return typeof writeId ===', replace: 'return writeIds.length >= 0 || typeof writeId ===' },
    ],
    in: { ...few, faults: ['crash', 'guard-pause'] },
    explored: { ...guarded, faults: ['crash'] },
  },
  {
    name: 'release a record that a clone has renewed',
    file: guard,
    find: "return typeof writeId === 'string' && writeIds.includes(writeId)",
    replace: "return typeof writeId === 'string' && writeIds.length > 0",
    in: { ...few, faults: ['clone'] },
  },
  {
    name: 'register a write after sending it',
    file: elector,
    find: `      const arming = this.#guard?.sending(call, this.#state.highestTerm)
      if (arming) void arming.then(() => this.#driver.flight === call.id && transmit())
      else transmit()`,
    replace: `      transmit()
      void this.#guard?.sending(call, this.#state.highestTerm)`,
    in: { releaseOnCrash: true, faults: ['crash'] },
  },
  {
    name: 'unregister an attempt at the deadline',
    file: 'engine/guard/elector-guard.ts',
    find: 'if (!isOwn || isSuperseded || isLeftToExpire)',
    replace: "if (!isOwn || isSuperseded || isLeftToExpire || ending?.reason === 'expired')",
    also: [
      {
        file: 'engine/guard/elector-guard.ts',
        find: 'stepped({ own, phase, settings, grant }',
        replace: 'stepped({ own, phase, settings, grant, ending }',
      },
    ],
    in: { ...few, faults: ['partition', 'crash'] },
  },
  {
    name: 'drop the answer to a call that waited for the pipe',
    file: elector,
    find: 'this.#driver.flight === call.id && transmit()',
    replace: 'this.#driver.lands(call.id) && transmit()',
    in: { releaseOnCrash: true, faults: ['full-pipe'] },
  },
]
