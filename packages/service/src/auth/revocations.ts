import { hash } from 'node:crypto'
import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { ServiceError } from '../errors.ts'
import type { Groups } from '../groups/groups.ts'
import { ownGroup } from '../groups/own-groups.ts'
import type { Replicas } from '../operation/replicas.ts'
import type { Identity } from './access.ts'
import { Refusal } from './refusal.ts'

export interface RevocationsOptions {
  readonly state: Groups
  readonly replicas: Pick<Replicas, 'view'>
  readonly clock: Clock
  /** Called when further tokens are revoked, by whichever replica. */
  onRevoked(): void
}

const kind = 'revoked'
const begin = ownGroup(kind, '')
const pageSize = 500
const retryMs = 100
/** How long a caller is held while it is not known which tokens are revoked. */
const holdMs = 2_000
/** What nobody tells of is found about then. */
const leastLookMs = 5_000
/** How long a look may take. */
const marginMs = 1_000
const confirmMs = 2_000
const confirmLookMs = 20
/** Lags are in whole milliseconds, and the moment of a change is a little before that of its answer. */
const slackMs = 100
/** Of the lease that tells the others. Nobody renews it. */
const leaseMs = 1_000

/** The name under which a token is revoked: of one length for all ids, and sound in every storage. */
export function revocationOf(tokenId: string): string {
  return ownGroup(kind, hash('sha256', tokenId, 'base64url'))
}

/**
 * Tokens that are not valid any more, although they have not expired.
 *
 * Each is a group of the service's own: that it exists is what revokes. So a revocation is as durable as a grant, the
 * replica that takes over has loaded it before it serves, and followers hear of it by the stream of changes, or of those
 * that they have missed when they are connected again. It is never taken back.
 *
 * Until all of them are known, nobody is let in by a token.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  readonly #names = new Set<string>()
  readonly #closed = new AbortController()
  #wake = new AbortController()
  /** How often all of them had to be looked at, and how often they were. */
  #needed = 1
  #looked = 0
  #waiting = new Set<() => void>()
  #forget: (() => void) | undefined

  constructor(options: RevocationsOptions) {
    this.#options = options
  }

  /** Follows them. Resolves when it has tried to look at all of them once. */
  async start(): Promise<void> {
    this.#forget = this.#options.state.follow({
      onChange: ({ groupId }) => this.#add([groupId]),
      onBreak: ({ changed }) => {
        if (changed) return this.#add(changed)
        this.#needed += 1
        this.#wake.abort()
      },
    })
    await this.#look()
    void this.#lookOn()
  }

  get count(): number {
    return this.#names.size
  }

  has({ revocation }: Identity): boolean {
    return revocation !== undefined && this.#names.has(revocation)
  }

  /** Throws unless a caller may come in, as far as its token is concerned. At once, while all of them are known. */
  check(identity: Identity): Promise<void> | undefined {
    if (identity.revocation === undefined) return undefined
    if (!this.#isKnown) return this.#whenKnown().then(() => this.#refuse(identity))
    this.#refuse(identity)
    return undefined
  }

  #refuse(identity: Identity): void {
    if (this.has(identity)) throw revoked()
    if (this.#isKnown) return
    const message = 'Which tokens are revoked is not known: no replica of this service is active.'
    throw new ServiceError('BACKEND_UNAVAILABLE', message, { details: { retry_after_ms: retryMs } })
  }

  /** Resolves once no replica that is connected takes the token any more. May be repeated. */
  async revoke(tokenId: string): Promise<void> {
    const { state, clock } = this.#options
    const groupId = revocationOf(tokenId)
    const policy = { minTtlMs: leaseMs, maxTtlMs: leaseMs }
    // The definition keeps it, even where all groups must be defined. The change of leadership tells it.
    await state.define(groupId, { policy, allowedNodes: undefined }, { replace: true })
    const attempt = clock.randomId()
    const claim = { groupId, nodeId: 'tenure', attempt, attemptIsOnce: true, ttlMs: leaseMs, metadata: '{}', waitMs: 0 }
    const { freeInMs } = await state.campaign(claim, this.#closed.signal)
    this.#add([groupId])
    // After a restored backup nobody is granted anything for a while: then the others find it when they look.
    if (await this.#isHeard(clock.monotonicMs(), freeInMs > 0 ? this.#lookMs + marginMs : 0)) return
    const text = 'The token is revoked, but a replica has not confirmed it yet. Ask again.'
    throw new ServiceError('BACKEND_UNAVAILABLE', text, { details: { retry_after_ms: confirmMs } })
  }

  close(): void {
    this.#closed.abort()
    this.#wake.abort()
    this.#forget?.()
  }

  /** A look at many takes longer, and is seldom of use. */
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

  /** Whether every replica that is connected has confirmed all changes up to a moment. */
  async #isHeard(sinceMs: number, lookedForMs: number): Promise<boolean> {
    const { clock, replicas } = this.#options
    for (;;) {
      const passedMs = clock.monotonicMs() - sinceMs
      const { active, followers } = await replicas.view()
      // What it has not confirmed is newer, or there is nothing.
      const isTold = (lagMs = Infinity) => lagMs + slackMs < passedMs
      const areTold = followers.every(({ changesBehind, lagMs }) => changesBehind === 0 || isTold(lagMs))
      if (active && areTold && (passedMs >= lookedForMs || followers.length === 0)) return true
      if (passedMs >= lookedForMs + confirmMs || this.#closed.signal.aborted) return false
      await pause(clock, confirmLookMs, this.#closed.signal)
    }
  }

  async #lookOn(): Promise<void> {
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
      // Nobody is active, so that nobody could be answered either.
      return
    }
    this.#looked = needed
    if (this.#isKnown) for (const done of this.#waiting) done()
  }
}

/** The one who shows it has the right signature: the reason helps no forger. */
export function revoked(): ServiceError {
  const cause = new Refusal('the token is revoked')
  return new ServiceError('UNAUTHORIZED', 'What was shown has been revoked.', { status: 401, cause })
}
