import { clientNetwork } from '@tenure/internal/client-network'
import type { FastifyRequest } from 'fastify'
import type { Clock } from 'tenure'
import { ServiceError } from '../common/errors.ts'
import type { Caller } from '../groups/port.ts'
import { TokenBuckets, SubjectSlots, Turns } from '../common/budgets.ts'
import type { LimitOptions } from './limit-options.ts'

/** The routes that are counted separately, so that no leader loses its lease because its subject campaigns too much. */
const renewing = new Set(['/v1/groups/:group_id/renew', '/v1/groups/:group_id/resign', '/v1/renew'])

const groupsPerRequest = 10
/** How many bytes of a body count as one renewal, or as one request. A body is charged before it is parsed. */
const bytesPerRenewal = 128
const bytesPerRequest = 4096
/** Up to this size a body costs no more than its connection. */
const smallBodyBytes = 8192
const groupsPerWatch = 50
/** A change of leadership counts as one more request for each hundred watchers that receive it, up to a limit. */
const watchersPerRequest = 100
const maxChangeCharge = 20

/** Returns how many watches a watch of this many groups counts as. Each watched group takes memory. */
export function watchWeight(groups: number): number {
  return Math.ceil(groups / groupsPerWatch)
}

/** Counts the requests of each subject, and rejects those that exceed its limits. */
export class Limits {
  readonly options: LimitOptions
  readonly #requests: TokenBuckets
  readonly #renewals: TokenBuckets
  readonly #newGroups: TokenBuckets
  readonly #deliveries: TokenBuckets
  readonly #watches: SubjectSlots
  readonly #waiting: SubjectSlots
  readonly #bodies: SubjectSlots
  readonly #answers: SubjectSlots
  readonly #turns = new Turns()
  readonly #clock: Clock
  readonly #authenticated: boolean

  constructor(options: LimitOptions, { clock, authenticated }: { clock: Clock; authenticated: boolean }) {
    this.options = options
    this.#requests = new TokenBuckets(options.requestsPerSecond / 1e3, 2 * options.requestsPerSecond)
    this.#renewals = new TokenBuckets(options.renewalsPerSecond / 1e3, 2 * options.renewalsPerSecond)
    this.#newGroups = new TokenBuckets(options.newGroupsPerHour / 3.6e6, options.newGroupsPerHour)
    this.#deliveries = new TokenBuckets(options.deliveriesPerSecond / 1e3, 2 * options.deliveriesPerSecond)
    this.#watches = new SubjectSlots(options.watchesPerSubject, Infinity)
    this.#waiting = new SubjectSlots(options.waitingPerSubject, options.maxWaiting)
    const slots = (most: number) => new SubjectSlots(authenticated ? Math.ceil(most / 4) : 0, most)
    this.#bodies = slots(options.maxBodyBytes)
    this.#answers = slots(options.maxAnswerBytes)
    this.#clock = clock
    this.#authenticated = authenticated
  }

  /** Charges one request. Called once for every request whose sender is identified. */
  request(request: FastifyRequest): void {
    this.#take(isRenewing(request) ? this.#renewals : this.#requests, request, 1, 'requests')
  }

  /**
   * Reserves room for a body of this many bytes. Returns a function that frees it, or undefined if the body needs none.
   * A body that never arrives completely takes memory until its timeout.
   */
  reserveBody(request: FastifyRequest, bytes: number): (() => void) | undefined {
    return bytes <= smallBodyBytes ? undefined : this.#enter(this.#bodies, request, bytes, 'bytes at once', 1_000)
  }

  /**
   * Reserves room for a response of this many bytes. Returns a function that frees it once the response is read, or
   * undefined if it needs none.
   */
  reserveResponse(request: FastifyRequest, bytes: number): (() => void) | undefined {
    return bytes <= smallBodyBytes ? undefined : this.#enter(this.#answers, request, bytes, 'answers unread', 1_000)
  }

  /** Charges for a body that has arrived. The request has already paid for a small one. */
  body(request: FastifyRequest, bytes: number): void {
    const [budget, bytesEach] = isRenewing(request)
      ? [this.#renewals, bytesPerRenewal]
      : [this.#requests, bytesPerRequest]
    this.#take(budget, request, Math.ceil(bytes / bytesEach) - 1, 'bytes', 1)
  }

  /**
   * Calls back when it is this request's turn among the large ones. Returns a function that lets the next one begin.
   */
  turn(request: FastifyRequest, begin: () => void): () => void {
    return this.#turns.take(this.subjectOf(request), begin)
  }

  /** Charges for the groups that a request asks about. The request itself has already paid for the first ten. */
  groups(request: FastifyRequest, count: number): void {
    this.#take(this.#requests, request, Math.ceil(count / groupsPerRequest) - 1, 'requests', 1)
  }

  /** Charges a subject for work, in requests. Called before the work is done. */
  work(subject: string, units: number, paid = 0): void {
    this.#charge(this.#requests, subject, units - paid, 'requests', paid)
  }

  /** Charges for a response of this many bytes before it is made. Each 4 KB count as a request. */
  chargeResponse(request: FastifyRequest, bytes: number): void {
    this.work(this.subjectOf(request), Math.ceil(bytes / bytesPerRequest), 1)
  }

  /**
   * Charges for the response to a poll of this many groups. Its size is known only afterwards, so the poll is not
   * rejected for it.
   */
  chargePoll(request: FastifyRequest, groups: number, bytes: number): void {
    const weight = Math.ceil(bytes / bytesPerRequest) - Math.ceil(groups / groupsPerRequest)
    if (weight <= 0 || !this.#requests.isLimited) return
    this.#requests.charge(this.subjectOf(request), weight, this.#clock.monotonicMs())
  }

  /**
   * Charges for the groups that a request skipped. Their number is known only afterwards, so the request is not
   * rejected for it. They are charged by the thousand, because the price must not reveal how many groups others have.
   */
  chargeSkipped(request: FastifyRequest, count: number): void {
    const weight = Math.floor(count / 1_000) * 10
    if (weight === 0 || !this.#requests.isLimited) return
    this.#requests.charge(this.subjectOf(request), weight, this.#clock.monotonicMs())
  }

  /** Charges for the leases of a batch that the size of its body has not paid for yet. */
  batch(request: FastifyRequest, leases: number, bytes: number): void {
    const paid = Math.max(1, Math.ceil(bytes / bytesPerRenewal))
    this.#take(this.#renewals, request, leases - paid, 'renewals', paid)
  }

  /** Whether the owner of a group matters. */
  get countsGroups(): boolean {
    return this.#newGroups.isLimited || this.options.groupBytesPerSubject > 0
  }

  /** Returns the subject that is charged for a request. */
  subjectOf(request: FastifyRequest): string {
    return this.#authenticated ? request.identity.subject : clientNetwork(request.ip)
  }

  /**
   * Returns the caller that another replica makes a call for. Without authentication every connection takes its own
   * turns.
   */
  callerOf(request: FastifyRequest): Caller {
    const subject = this.subjectOf(request)
    return this.#authenticated ? { subject } : { subject, lane: `${subject} ${request.raw.socket.remotePort}` }
  }

  newGroup(subject: string): void {
    this.#charge(this.#newGroups, subject, 1, 'new groups')
  }

  /** Charges a subject for deliveries. Returns false, and charges nothing, if its budget is used up. */
  deliver(subject: string, count: number): boolean {
    return this.deliverLate(subject, count) === 0
  }

  /**
   * The same for late deliveries. Returns 0 if the subject was charged, otherwise how long to wait before trying again.
   */
  deliverLate(subject: string, count: number): number {
    return this.#deliveries.isLimited ? this.#deliveries.take(subject, count, this.#clock.monotonicMs()) : 0
  }

  /**
   * Charges for a change of leadership that this many watchers receive. The price has a limit, so that nobody can make
   * a leader pay much by opening watches. It never causes a renewal or a resignation to be rejected.
   */
  chargeChange(request: FastifyRequest, watchers: number): void {
    const weight = Math.min(Math.ceil(watchers / watchersPerRequest), maxChangeCharge)
    if (weight === 0 || !this.#requests.isLimited) return
    this.#requests.charge(this.subjectOf(request), weight, this.#clock.monotonicMs())
  }

  /** Runs a watch of this many groups. */
  async watching<T>(request: FastifyRequest, groups: number, run: () => Promise<T>): Promise<T> {
    return holding(this.#enter(this.#watches, request, watchWeight(groups), 'watches', 5_000), run)
  }

  /** How many campaigns are in the queues. */
  get waitingCount(): number {
    return this.#waiting.taken
  }

  /** Runs a campaign that waits in the queue. */
  async waiting<T>(request: FastifyRequest, run: () => Promise<T>): Promise<T> {
    return holding(this.#enter(this.#waiting, request, 1, 'campaigns that wait', 5_000), run)
  }

  #take(budget: TokenBuckets, request: FastifyRequest, weight: number, what: string, paid = 0): void {
    this.#charge(budget, this.subjectOf(request), weight, what, paid)
  }

  #charge(budget: TokenBuckets, subject: string, weight: number, what: string, paid = 0): void {
    if (weight <= 0 || !budget.isLimited) return
    const waitMs = budget.take(subject, weight, this.#clock.monotonicMs(), paid)
    if (waitMs > 0) throw tooMany(what, waitMs)
  }

  #enter(slots: SubjectSlots, request: FastifyRequest, weight: number, what: string, retryAfterMs: number): () => void {
    const leave = slots.enter(this.subjectOf(request), weight)
    if (!leave) throw tooMany(what, retryAfterMs)
    return leave
  }
}

async function holding<T>(leave: () => void, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } finally {
    leave()
  }
}

function isRenewing({ routeOptions }: FastifyRequest): boolean {
  return renewing.has(routeOptions.url ?? '')
}

function tooMany(what: string, retry_after_ms: number): ServiceError {
  return new ServiceError('RATE_LIMITED', `Too many ${what}.`, { details: { retry_after_ms } })
}
