/**
 * One conformance suite for every store and any test runner. A store that passes it satisfies the `LeaseStore`
 * contract.
 *
 * @module
 */
import { checkOptions, invalidOption } from 'tenure/internal'
import { acquireCases } from './acquire.ts'
import { callsCases } from './calls.ts'
import { unmetNeed, type Case } from './case.ts'
import { concurrencyCases } from './concurrency.ts'
import { declaredCases } from './declared-values.ts'
import { expiryCases } from './expiry.ts'
import { forgetCases } from './forget.ts'
import { heldCases, successorCases } from './held-claims.ts'
import { largestCases } from './largest-records.ts'
import { listCases } from './list.ts'
import { namesCases } from './names.ts'
import { ConformanceScene, type ConformanceOptions, type StoreUnderTest } from './scene.ts'
import { vanishedCases } from './missing-records.ts'
import { watchCases } from './watch.ts'

export type { ConformanceOptions, StoreUnderTest } from './scene.ts'

/**
 * The context that a test runner may pass to a case. `node:test` and Vitest pass one and report a skipped case as
 * skipped.
 */
export interface CaseContext {
  readonly skip?: (reason: string) => unknown
}

/** One requirement of the `LeaseStore` contract, as a test. */
export interface ConformanceCase {
  /** A complete sentence that states the requirement. */
  readonly name: string
  /** Rejects when the store violates the requirement, with a message that says what was expected. */
  run(context?: CaseContext): Promise<void>
}

const cases: readonly Case[] = [
  ...acquireCases,
  ...expiryCases,
  ...heldCases,
  ...successorCases,
  ...largestCases,
  ...declaredCases,
  ...vanishedCases,
  ...concurrencyCases,
  ...namesCases,
  ...watchCases,
  ...listCases,
  ...forgetCases,
  ...callsCases,
]

/**
 * Returns the cases of the suite. Each case calls `makeStore` for a fresh store. A case that does not apply to the
 * store (no watch, no list, no forget, no lasting terms, no successors) is skipped.
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
    // The default value keeps the function's length at 0. Mocha and Jest would treat a parameter as a callback.
    run: async (context: CaseContext = {}) => {
      const scene = new ConformanceScene(await makeStore(), options)
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
