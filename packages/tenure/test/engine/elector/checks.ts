import { blockedLoop } from './check-blocked-loop.ts'
import { busy } from './check-busy.ts'
import { identities } from './check-identity.ts'
import { lateGrants } from './check-late-grants.ts'
import { signals } from './check-signal.ts'
import { stepDowns } from './check-step-down.ts'
import { time } from './check-time.ts'

/** The library, or a mutant of it. */
export type Library = typeof import('../../../src/index.ts')

/** Checks by name. Each resolves if the statement in its name holds, and rejects otherwise. */
export type Checks = Readonly<Record<string, (library: Library) => Promise<void>>>

/**
 * Checks of the code around the election algorithm, which the simulator does not cover. They run on the library and on
 * its mutants.
 */
export const checks: Checks = {
  ...blockedLoop,
  ...busy,
  ...identities,
  ...lateGrants,
  ...signals,
  ...stepDowns,
  ...time,
}
