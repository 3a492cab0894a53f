import { answers } from './check-answers.ts'
import { faults } from './check-faults.ts'
import { requests } from './check-requests.ts'
import { watching } from './check-watching.ts'
import type { Checks } from './lock-scene.ts'

/** What holds of the lock beside the conformance suite, in virtual time, for the library and for mutants of it. */
export const checks: Checks = { ...answers, ...requests, ...faults, ...watching }
