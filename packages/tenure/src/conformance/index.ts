/**
 * One suite for every store, for any test runner. A store that passes it keeps the promises of `LeaseStore`.
 *
 * @module
 */
import { invalidOption } from '../errors.ts'
import { checkOptions } from '../options/check-options.ts'
import { acquireCases } from './acquire.ts'
import { callsCases } from './calls.ts'
import { unmetNeed, type Case } from './case.ts'
import { concurrencyCases } from './concurrency.ts'
import { expiryCases } from './expiry.ts'
import { forgetCases } from './forget.ts'
import { heldCases } from './held.ts'
import { largestCases } from './largest.ts'
import { listCases } from './list.ts'
import { namesCases } from './names.ts'
import { Scene, type ConformanceOptions, type StoreUnderTest } from './scene.ts'
import { vanishedCases } from './vanished.ts'
import { watchCases } from './watch.ts'

export type { ConformanceOptions, StoreUnderTest } from './scene.ts'

/** What a test runner may hand to a case: `node:test` and Vitest do, and get to know of a case that does not apply. */
export interface CaseContext {
  readonly skip?: (reason: string) => unknown
}

/** One promise of the port as a test. */
export interface ConformanceCase {
  /** A sentence. */
  readonly name: string
  /** Rejects, with a message that says what was expected, if the store breaks the promise. */
  run(context?: CaseContext): Promise<void>
}

const cases: readonly Case[] = [
  ...acquireCases,
  ...expiryCases,
  ...heldCases,
  ...largestCases,
  ...vanishedCases,
  ...concurrencyCases,
  ...namesCases,
  ...watchCases,
  ...listCases,
  ...forgetCases,
  ...callsCases,
]

/**
 * The suite. `makeStore` is called again for each case. Cases that a store's kind rules out (no watch, no list, no forget, no lasting terms)
 * are skipped.
 *
 * @example
 * for (const { name, run } of storeConformance(() => ({ store: memoryStore() }))) test(name, run)
 */
export function storeConformance(
  makeStore: () => StoreUnderTest | Promise<StoreUnderTest>,
  options: ConformanceOptions = {},
): ConformanceCase[] {
  checkOptions('storeConformance()', options, { patienceMs: true, leaseDurationMs: true })
  if (typeof makeStore !== 'function') throw invalidOption('makeStore', makeStore, 'it must be a function')
  return cases.map((one) => ({
    name: one.name,
    // The default keeps the function's length at 0: Mocha and Jest would take a parameter for a callback.
    run: async (context: CaseContext = {}) => {
      const scene = new Scene(await makeStore(), options)
      try {
        const reason = unmetNeed(one, scene.under)
        if (reason === undefined) await one.run(scene)
        else context.skip?.(reason)
      } catch (error) {
        await scene.end().catch(() => {})
        throw error
      }
      await scene.end()
    },
  }))
}
