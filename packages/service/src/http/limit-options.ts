import { getHeapStatistics } from 'node:v8'
import { checkOptions } from 'tenure/internal'
import { wrongOption } from '../common/errors.ts'

/**
 * Limits of the service. For each limit per subject, 0 means no limit. A subject is an authenticated caller. Without
 * authentication it is the caller's address, and the defaults per subject are 0. All addresses of a 64-bit IPv6 network
 * count as one.
 */
export interface LimitOptions {
  /**
   * Concurrent connections. Up to a quarter of them may be unidentified, and those are closed first to make room.
   * Default: 30,000.
   */
  readonly maxConnections: number
  /** Concurrent connections from one address, which may be a proxy. Default: 20,000. */
  readonly maxConnectionsPerAddress: number
  /**
   * The same for connections on which no caller has authenticated yet. The oldest is closed to make room for a new one.
   * Default: 2,000.
   */
  readonly maxUnidentifiedPerAddress: number
  /** How long a connection on which no caller has authenticated yet may be idle. Default: 5,000. */
  readonly unidentifiedTimeoutMs: number
  /** How long the head of a request may take to arrive. Default: 10,000. */
  readonly headersTimeoutMs: number
  /** How long a request may take to arrive, including its body. Default: 30,000. */
  readonly requestTimeoutMs: number
  /** How long a response may remain unread before the connection is closed. Default: 60,000. */
  readonly answerTimeoutMs: number
  /** Campaigns in the queues at once, of all subjects. Default: 20,000. */
  readonly maxWaiting: number
  /**
   * Bytes of request bodies in transit at once, of all subjects. One authenticated subject may have a quarter of this.
   * Bodies up to 8 KB do not count. Default: 64 MB.
   */
  readonly maxBodyBytes: number
  /** The same for responses that are not read yet. Streams have their own limits. Default: 64 MB. */
  readonly maxAnswerBytes: number
  /** The approximate memory for all groups, in bytes. Default: half of the maximum heap size of the process. */
  readonly maxGroupBytes: number
  /**
   * Requests of a subject per second, in bursts of up to twice as many. Renewals and resignations do not count. A
   * request about many groups counts once for each ten of them, and one with a body once for each 4 KB of it. Default:
   * 1,000.
   */
  readonly requestsPerSecond: number
  /**
   * Renewals and resignations of a subject per second. Each lease in a batch counts as one. If the body is longer than
   * 128 bytes per lease, its size counts instead. Default: 50,000.
   */
  readonly renewalsPerSecond: number
  /** Groups that campaigns of a subject create per hour, in bursts of up to that number. Default: 1,000. */
  readonly newGroupsPerHour: number
  /**
   * The approximate memory for the groups of a subject, in bytes: at least 1 KB each, with their metadata and
   * checkpoint. A group belongs to the subject that led it last. Default: 32 MB.
   */
  readonly groupBytesPerSubject: number
  /**
   * Concurrent watches of a subject, each for up to fifty groups. A watch of more counts as several. Default: 2,000.
   */
  readonly watchesPerSubject: number
  /**
   * Events per second that are delivered to watches of a subject, or caused by its renewals, in bursts of up to twice
   * as many. Beyond that, streams get changes late and no renewals. Default: 10,000.
   */
  readonly deliveriesPerSecond: number
  /** Campaigns of a subject in the queues at once. Default: 2,000. */
  readonly waitingPerSubject: number
}

const forAll = {
  maxConnections: 30_000,
  maxConnectionsPerAddress: 20_000,
  maxUnidentifiedPerAddress: 2_000,
  unidentifiedTimeoutMs: 5_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  answerTimeoutMs: 60_000,
  maxWaiting: 20_000,
  maxBodyBytes: 64 * 2 ** 20,
  maxAnswerBytes: 64 * 2 ** 20,
  maxGroupBytes: Math.min(Math.floor(getHeapStatistics().heap_size_limit / 2), 2 ** 31 - 1),
}
const perSubject = {
  requestsPerSecond: 1_000,
  renewalsPerSecond: 50_000,
  newGroupsPerHour: 1_000,
  groupBytesPerSubject: 32 * 2 ** 20,
  watchesPerSubject: 2_000,
  deliveriesPerSecond: 10_000,
  waitingPerSubject: 2_000,
}

/** Returns the given limits, with defaults for the rest. */
export function limitsFrom(given: Partial<LimitOptions> | undefined, authenticated: boolean): LimitOptions {
  const known: LimitOptions = { ...forAll, ...perSubject }
  checkOptions('limits', given ?? {}, known)
  for (const [name, value] of Object.entries(given ?? {})) {
    const lowest = Object.hasOwn(perSubject, name) ? 0 : 1
    if (value !== undefined && (!Number.isSafeInteger(value) || value < lowest || value > 2 ** 31 - 1)) {
      const rule = `it must be a whole number of at least ${lowest}.`
      throw wrongOption(`limits.${name}`, ` is ${String(value)}; `, rule)
    }
  }
  const unlimited = Object.fromEntries(Object.keys(perSubject).map((name) => [name, 0]))
  const wanted = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined))
  const limits: LimitOptions = { ...known, ...(!authenticated && unlimited), ...wanted }
  if (limits.headersTimeoutMs > limits.requestTimeoutMs) {
    throw wrongOption('limits.headersTimeoutMs', ' ', 'must not be above limits.requestTimeoutMs.')
  }
  return limits
}
