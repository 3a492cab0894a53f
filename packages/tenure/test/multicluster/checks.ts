import { answers } from './check-answers.ts'
import { faults } from './check-faults.ts'
import { requests } from './check-requests.ts'
import { watching } from './check-watching.ts'
import type { Checks } from './lock-fixture.ts'

/**
 * Checks of the lock in virtual time, in addition to the conformance suite. They run on the library and on its mutants.
 */
export const checks: Checks = { ...answers, ...requests, ...faults, ...watching }
