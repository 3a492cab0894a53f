/**
 * The attempts of heartbeats, and the values that each was computed from. A decoded state has different generations and
 * names than the original, so its attempts must be computed again.
 */
import { attemptOf } from '../../../src/relay/spec-only-candidate.ts'

interface Origin {
  readonly cluster: number
  readonly uid: string
  readonly identity: string
  readonly generation: number
}

/** The values that each attempt was computed from. The attempt itself does not show them. */
const origins = new Map<string, Origin>()
const attempts = new Map<string, string>()

/** Returns the attempt of a heartbeat, and remembers how it was computed so that it can be encoded. */
export function knownAttempt(cluster: number, uid: string, identity: string, generation: number): string {
  const key = `${cluster} ${uid} ${identity} ${generation}`
  const known = attempts.get(key)
  if (known !== undefined) {
    // Another exploration may have used this identity in another cluster.
    if (origins.get(known)?.cluster !== cluster) origins.set(known, { cluster, uid, identity, generation })
    return known
  }
  const beat = { identity, generation, renewTime: renewTimeOf(generation), leaseDurationMs: 0 }
  const attempt = attemptOf(uid, beat)
  attempts.set(key, attempt)
  origins.set(attempt, { cluster, uid, identity, generation })
  return attempt
}

export function originOf(attempt: string): Origin {
  const origin = origins.get(attempt)
  if (origin) return origin
  throw new Error(`${attempt} does not belong to any heartbeat`)
}

/** Returns a time that no two heartbeats of one resource share. */
export function renewTimeOf(generation: number): string {
  return `t${generation}`
}
