/** How much one subject may ask for, and how long a connection may take. */
import type { FastifyRequest } from 'fastify'
import type { Clock } from 'tenure'
import { ServiceError } from './errors.ts'

/**
 * Limits of the service. Of each number per subject 0 means no limit. A subject is who has authenticated; without
 * authentication it is the address that asks, and the defaults per subject are 0.
 */
export interface LimitOptions {
  /** Connections at once. Default: 30,000. */
  readonly maxConnections: number
  /** Connections at once from one address, which may be a proxy. Default: 20,000. */
  readonly maxConnectionsPerAddress: number
  /** How long the head of a request may take. Default: 10,000. */
  readonly headersTimeoutMs: number
  /** How long a request may take to arrive, with its body. Default: 30,000. */
  readonly requestTimeoutMs: number
  /** How long an answer may lie unread before the connection is cut. Default: 60,000. */
  readonly answerTimeoutMs: number
  /** Campaigns that wait in line at once, of everybody. Default: 20,000. */
  readonly maxWaiting: number
  /**
   * Requests of a subject, with twice as many at once; renewals and resignations do not count. One about many groups
   * counts once for each ten of them. Default: 1,000.
   */
  readonly requestsPerSecond: number
  /** Renewals and resignations of a subject, each lease in a batch by itself. Default: 50,000. */
  readonly renewalsPerSecond: number
  /** Groups that campaigns of a subject bring into being, as many at once. Default: 36,000. */
  readonly newGroupsPerHour: number
  /** Watches of a subject at once, each for fifty groups at most: one of more takes several. Default: 2,000. */
  readonly watchesPerSubject: number
  /** Campaigns of a subject that wait in line at once. Default: 2,000. */
  readonly waitingPerSubject: number
}

const forAll = {
  maxConnections: 30_000,
  maxConnectionsPerAddress: 20_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  answerTimeoutMs: 60_000,
  maxWaiting: 20_000,
}
const perSubject = {
  requestsPerSecond: 1_000,
  renewalsPerSecond: 50_000,
  newGroupsPerHour: 36_000,
  watchesPerSubject: 2_000,
  waitingPerSubject: 2_000,
}

/** What was asked for, with defaults for the rest. */
export function limitsFrom(given: Partial<LimitOptions> | undefined, authenticated: boolean): LimitOptions {
  const known: LimitOptions = { ...forAll, ...perSubject }
  for (const [name, value] of Object.entries(given ?? {})) {
    if (!Object.hasOwn(known, name)) throw new TypeError(`limits.${name} is not known.`)
    const lowest = Object.hasOwn(perSubject, name) ? 0 : 1
    if (value !== undefined && (!Number.isSafeInteger(value) || value < lowest || value > 2 ** 31 - 1)) {
      throw new TypeError(`limits.${name} is ${String(value)}; it must be a whole number of at least ${lowest}.`)
    }
  }
  const unlimited = Object.fromEntries(Object.keys(perSubject).map((name) => [name, 0]))
  const wanted = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined))
  const limits: LimitOptions = { ...known, ...(!authenticated && unlimited), ...wanted }
  if (limits.headersTimeoutMs > limits.requestTimeoutMs) {
    throw new TypeError('limits.headersTimeoutMs must not be above limits.requestTimeoutMs.')
  }
  return limits
}

// So that leaders are not lost because the same subject campaigns too much.
const renewing = new Set(['/v1/groups/:group_id/renew', '/v1/groups/:group_id/resign', '/v1/renew'])

const groupsPerRequest = 10
const groupsPerWatch = 50

/** Each group that is watched takes memory, so a watch of many counts as several. */
export function watchWeight(groups: number): number {
  return Math.ceil(groups / groupsPerWatch)
}

/** Counts what each subject does, and refuses what is too much. */
export class Limits {
  readonly options: LimitOptions
  readonly #requests: Budget
  readonly #renewals: Budget
  readonly #newGroups: Budget
  readonly #watches: Places
  readonly #waiting: Places
  readonly #clock: Clock
  readonly #authenticated: boolean

  constructor(options: LimitOptions, { clock, authenticated }: { clock: Clock; authenticated: boolean }) {
    this.options = options
    this.#requests = new Budget(options.requestsPerSecond / 1e3, 2 * options.requestsPerSecond)
    this.#renewals = new Budget(options.renewalsPerSecond / 1e3, 2 * options.renewalsPerSecond)
    this.#newGroups = new Budget(options.newGroupsPerHour / 3.6e6, options.newGroupsPerHour)
    this.#watches = new Places(options.watchesPerSubject, Infinity)
    this.#waiting = new Places(options.waitingPerSubject, options.maxWaiting)
    this.#clock = clock
    this.#authenticated = authenticated
  }

  /** Once for every request whose sender is known. */
  request(request: FastifyRequest): void {
    const budget = renewing.has(request.routeOptions.url ?? '') ? this.#renewals : this.#requests
    if (budget.isLimited) this.#take(budget, request, 1, 'requests')
  }

  /** The groups that one request asks about, of which it has paid for the first ten. */
  groups(request: FastifyRequest, count: number): void {
    const weight = Math.ceil(count / groupsPerRequest) - 1
    if (weight > 0 && this.#requests.isLimited) this.#take(this.#requests, request, weight, 'requests', 1)
  }

  /**
   * Groups that were passed over for a request: known only afterwards, so it is not refused for them. By the thousand:
   * what one pays must not tell how many groups of others there are.
   */
  passedOver(request: FastifyRequest, count: number): void {
    const weight = Math.floor(count / 1_000) * 10
    if (weight === 0 || !this.#requests.isLimited) return
    this.#requests.charge(this.#subjectOf(request), weight, this.#clock.monotonicMs())
  }

  /** The leases of a batch, of which the request itself was the first. */
  batch(request: FastifyRequest, leases: number): void {
    if (this.#renewals.isLimited) this.#take(this.#renewals, request, leases - 1, 'renewals', 1)
  }

  get countsNewGroups(): boolean {
    return this.#newGroups.isLimited
  }

  newGroup(request: FastifyRequest): void {
    this.#take(this.#newGroups, request, 1, 'new groups')
  }

  /** Runs what watches so many groups. */
  watching<T>(request: FastifyRequest, groups: number, run: () => Promise<T>): Promise<T> {
    return this.#holding(this.#watches, request, 'watches', run, watchWeight(groups))
  }

  /** How many wait in line. */
  get waitingCount(): number {
    return this.#waiting.taken
  }

  /** Runs what waits in line. */
  waiting<T>(request: FastifyRequest, run: () => Promise<T>): Promise<T> {
    return this.#holding(this.#waiting, request, 'campaigns that wait', run)
  }

  #take(budget: Budget, request: FastifyRequest, weight: number, what: string, paid = 0): void {
    const waitMs = budget.take(this.#subjectOf(request), weight, this.#clock.monotonicMs(), paid)
    if (waitMs > 0) throw tooMany(what, waitMs)
  }

  async #holding<T>(
    places: Places,
    request: FastifyRequest,
    what: string,
    run: () => Promise<T>,
    weight = 1,
  ): Promise<T> {
    const leave = places.enter(this.#subjectOf(request), weight)
    if (!leave) throw tooMany(what, 5_000)
    try {
      return await run()
    } finally {
      leave()
    }
  }

  #subjectOf(request: FastifyRequest): string {
    return this.#authenticated ? request.identity.subject : request.ip
  }
}

function tooMany(what: string, retry_after_ms: number): ServiceError {
  return new ServiceError('RATE_LIMITED', `Too many ${what}.`, { details: { retry_after_ms } })
}

const mostBuckets = 10_000

/** Token buckets, one for each subject that was here lately. */
export class Budget {
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>()
  readonly #perMs: number
  readonly #burst: number

  constructor(perMs: number, burst: number) {
    this.#perMs = perMs
    this.#burst = burst
  }

  get isLimited(): boolean {
    return this.#burst > 0
  }

  get size(): number {
    return this.#buckets.size
  }

  /** How long to wait; 0 if it was taken. `paid` was taken for the same thing just before. */
  take(subject: string, weight: number, nowMs: number, paid = 0): number {
    const bucket = this.#bucketOf(subject, nowMs)
    // What weighs more than the bucket holds is let through from a full one, and paid for afterwards.
    const needed = Math.min(weight, this.#burst - paid)
    if (bucket.tokens < needed) return Math.max(1, Math.ceil((needed - bucket.tokens) / this.#perMs))
    bucket.tokens -= weight
    return 0
  }

  /** Takes it in any case. */
  charge(subject: string, weight: number, nowMs: number): void {
    this.#bucketOf(subject, nowMs).tokens -= weight
  }

  #bucketOf(subject: string, nowMs: number): { tokens: number; atMs: number } {
    const bucket = this.#buckets.get(subject) ?? { tokens: this.#burst, atMs: nowMs }
    // The first one is that which nobody used for longest: it is the fullest, and least is lost with it.
    this.#buckets.delete(subject)
    this.#buckets.set(subject, bucket)
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= mostBuckets) break
      this.#buckets.delete(oldest)
    }
    bucket.tokens = Math.min(this.#burst, bucket.tokens + Math.max(0, nowMs - bucket.atMs) * this.#perMs)
    bucket.atMs = nowMs
    return bucket
  }
}

/** Places that are taken and left again. Who holds none is not remembered. */
export class Places {
  readonly #held = new Map<string, number>()
  readonly #mostEach: number
  readonly #most: number
  #all = 0

  constructor(mostEach: number, most: number) {
    this.#mostEach = mostEach === 0 ? Infinity : mostEach
    this.#most = most
  }

  get size(): number {
    return this.#held.size
  }

  get taken(): number {
    return this.#all
  }

  /** Returns what leaves the places, once; undefined if there is none. Who gets one gets all that it weighs. */
  enter(subject: string, weight = 1): (() => void) | undefined {
    const held = this.#held.get(subject) ?? 0
    if (held >= this.#mostEach || this.#all >= this.#most) return undefined
    this.#held.set(subject, held + weight)
    this.#all += weight
    return () => {
      this.#all -= weight
      const others = (this.#held.get(subject) ?? weight) - weight
      if (others === 0) this.#held.delete(subject)
      else this.#held.set(subject, others)
    }
  }
}
