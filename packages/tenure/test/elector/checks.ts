import { blockedLoop } from './check-blocked-loop.ts'
import { identities } from './check-identity.ts'
import { lateGrants } from './check-late-grants.ts'
import { signals } from './check-signal.ts'
import { time } from './check-time.ts'

/** The library, or a mutant of it. */
export type Library = typeof import('../../src/index.ts')

/** Each resolves if what its name says holds, and rejects if it does not. */
export type Checks = Readonly<Record<string, (library: Library) => Promise<void>>>

/** What holds of an elector around its algorithm, where the simulator does not look, for the library and its mutants. */
export const checks: Checks = { ...blockedLoop, ...identities, ...lateGrants, ...signals, ...time }
