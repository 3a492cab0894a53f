import { hash } from 'node:crypto'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { Groups } from '../groups/port.ts'
import { reservedGroup } from '../groups/reserved-groups.ts'
import type { Replicas } from '../replication/replica-views.ts'
import type { Identity } from './access.ts'
import { CredentialError } from './credential-error.ts'

export interface RevocationsOptions {
  readonly state: Groups
  readonly replicas: Pick<Replicas, 'view'>
  readonly clock: Clock
  /** Called when more tokens are revoked, by any replica. */
  onRevoked(): void
}

const kind = 'revoked'
const begin = reservedGroup(kind, '')
const pageSize = 500
const retryMs = 100
/** How long a request waits while the list of revoked tokens is not loaded. */
const holdMs = 2_000
/** The shortest interval between full reads, which find revocations that no event reported. */
const leastLookMs = 5_000
/** How long a full read may take. */
const marginMs = 1_000
const confirmMs = 2_000
const confirmLookMs = 20
/**
 * Added to a follower's lag, because lags are in whole milliseconds and a change happens slightly before its response.
 */
const slackMs = 100
/** The duration of the lease whose grant announces a revocation to the other replicas. Nobody renews it. */
const leaseMs = 1_000

/**
 * Returns the name under which a token is revoked. It has the same length for all ids, and is valid in every storage.
 */
export function revocationGroupId(tokenId: string): string {
  return reservedGroup(kind, hash('sha256', tokenId, 'base64url'))
}

/**
 * Tokens that are no longer valid, although they have not expired.
 *
 * Each revocation is one of the service's own groups, and the existence of the group is what revokes the token. So a
 * revocation is as durable as a grant, and a replica that takes over has loaded it before it serves. Followers learn of
 * it from the change stream, and of missed ones when they reconnect. A revocation is never undone.
 *
 * Until all revocations are known, no token is accepted.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  readonly #names = new Set<string>()
  readonly #closed = new AbortController()
  #wake = new AbortController()
  /** How many full reads have been needed so far, and how many of them are done. */
  #needed = 1
  #looked = 0
  #waiting = new Set<() => void>()
  #forget: (() => void) | undefined

  constructor(options: RevocationsOptions) {
    this.#options = options
  }

  /** Starts following revocations. Resolves after the first attempt to read all of them. */
  async start(): Promise<void> {
    this.#forget = this.#options.state.listen({
      onChange: ({ groupId }) => this.#add([groupId]),
      onGap: ({ changed }) => {
        if (changed) return this.#add(changed)
        this.#needed += 1
        this.#wake.abort()
      },
    })
    await this.#look()
    void this.#keepLooking()
  }

  get count(): number {
    return this.#names.size
  }

  has({ revocation }: Identity): boolean {
    return revocation !== undefined && this.#names.has(revocation)
  }

  /** Throws if the caller's token is revoked. Returns undefined, without waiting, while all revocations are known. */
  check(identity: Identity): Promise<void> | undefined {
    if (identity.revocation === undefined) return undefined
    if (!this.#isKnown) return this.#whenKnown().then(() => this.#refuse(identity))
    this.#refuse(identity)
    return undefined
  }

  #refuse(identity: Identity): void {
    if (this.has(identity)) throw revokedError()
    if (this.#isKnown) return
    const message = 'The revoked tokens are not known yet: no replica of this service is active. Retry the request.'
    throw new ServiceError('BACKEND_UNAVAILABLE', message, { details: { retry_after_ms: retryMs } })
  }

  /** Resolves once no connected replica accepts the token anymore. May be called again. */
  async revoke(tokenId: string): Promise<void> {
    const { state, clock } = this.#options
    const groupId = revocationGroupId(tokenId)
    const policy = { minTtlMs: leaseMs, maxTtlMs: leaseMs }
    // The definition keeps the group from being dropped, and creates it even where campaigns may not create groups. The
    // campaign then changes the group's leader, and that change announces the revocation to the other replicas.
    await state.define(groupId, { policy, allowedNodes: undefined }, { replace: true })
    const attempt = clock.randomId()
    const claim = { groupId, nodeId: 'tenure', attempt, attemptIsOnce: true, ttlMs: leaseMs, metadata: '{}', waitMs: 0 }
    const { freeInMs } = await state.campaign(claim, this.#closed.signal)
    this.#add([groupId])
    // After a backup is restored, nothing is granted for a while, so the other replicas find the group at their next
    // full read.
    if (await this.#isHeard(clock.monotonicMs(), freeInMs > 0 ? this.#lookMs + marginMs : 0)) return
    const text = 'The token is revoked, but at least one replica has not confirmed it yet. Retry the request.'
    throw new ServiceError('BACKEND_UNAVAILABLE', text, { details: { retry_after_ms: confirmMs } })
  }

  close(): void {
    this.#closed.abort()
    this.#wake.abort()
    this.#forget?.()
  }

  /** A full read of many revocations takes longer and is rarely needed, so it happens less often. */
  get #lookMs(): number {
    return Math.max(leastLookMs, this.#names.size)
  }

  get #isKnown(): boolean {
    return this.#looked === this.#needed
  }

  #whenKnown(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel()
        this.#waiting.delete(done)
        resolve()
      }
      const timer = this.#options.clock.setTimer(holdMs, done, { background: true })
      this.#waiting.add(done)
    })
  }

  #add(groupIds: Iterable<string>): void {
    const before = this.#names.size
    for (const groupId of groupIds) if (groupId.startsWith(begin)) this.#names.add(groupId)
    if (this.#names.size > before) this.#options.onRevoked()
  }

  /** Returns whether every connected replica has confirmed all changes up to a moment. */
  async #isHeard(sinceMs: number, lookedForMs: number): Promise<boolean> {
    const { clock, replicas } = this.#options
    for (;;) {
      const passedMs = clock.monotonicMs() - sinceMs
      const { active, followers } = await replicas.view()
      // Any change that this follower has not confirmed is newer than the revocation.
      const isTold = (lagMs = Infinity) => lagMs + slackMs < passedMs
      const areTold = followers.every(({ changesBehind, lagMs }) => changesBehind === 0 || isTold(lagMs))
      if (active && areTold && (passedMs >= lookedForMs || followers.length === 0)) return true
      if (passedMs >= lookedForMs + confirmMs || this.#closed.signal.aborted) return false
      await pause(clock, confirmLookMs, this.#closed.signal)
    }
  }

  async #keepLooking(): Promise<void> {
    const { clock } = this.#options
    while (!this.#closed.signal.aborted) {
      await pause(clock, this.#isKnown ? this.#lookMs : retryMs, this.#wake.signal)
      if (!this.#closed.signal.aborted) this.#wake = new AbortController()
      await this.#look()
    }
  }

  async #look(): Promise<void> {
    const needed = this.#needed
    try {
      for (let after: string | undefined = begin; after !== undefined;) {
        const { groups, next } = await this.#options.state.groups({ after, limit: pageSize })
        this.#add(groups.map(({ groupId }) => groupId))
        after = next
      }
    } catch {
      // No replica is active, so no request can be answered anyway.
      return
    }
    this.#looked = needed
    if (this.#isKnown) for (const done of this.#waiting) done()
  }
}

/** The error for a revoked token. Saying so does not help a forger, because the token's signature is valid. */
export function revokedError(): ServiceError {
  const cause = new CredentialError('the token is revoked')
  return new ServiceError('UNAUTHORIZED', 'The credential has been revoked.', { status: 401, cause })
}
