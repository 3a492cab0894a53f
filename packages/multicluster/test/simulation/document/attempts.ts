/** Attempts of heartbeats, and what they were made of: a scene is kept with other generations and names than it had. */
import { attemptOf } from '../../../src/spec-only-candidate.ts'

interface Origin {
  readonly cluster: number
  readonly uid: string
  readonly identity: string
  readonly generation: number
}

/** What attempts are made of, which they do not show. */
const origins = new Map<string, Origin>()
const attempts = new Map<string, string>()

/** The attempt of a heartbeat, noted so that it can be written. */
export function knownAttempt(cluster: number, uid: string, identity: string, generation: number): string {
  const key = `${cluster} ${uid} ${identity} ${generation}`
  const known = attempts.get(key)
  if (known !== undefined) {
    // Another exploration may have had this identity in another cluster.
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
  throw new Error(`${attempt} is of no heartbeat`)
}

/** No two signals of one resource have the same. */
export function renewTimeOf(generation: number): string {
  return `t${generation}`
}
