import { getHeapStatistics } from 'node:v8'
import { checkOptions } from 'tenure/options'
import { wrongOption } from '../errors.ts'

/**
 * Limits of the service. For each number per subject, 0 means no limit. A subject is an authenticated caller; without
 * authentication it is the caller's address, and the defaults per subject are 0. The addresses of an IPv6 network of 64
 * bits count as one.
 */
export interface LimitOptions {
  /** Connections at once. A quarter of them may be without an identity: these make room first. Default: 30,000. */
  readonly maxConnections: number
  /** Connections at once from one address, which may be a proxy. Default: 20,000. */
  readonly maxConnectionsPerAddress: number
  /** The same for connections on which nobody has authenticated yet. The oldest makes room for a new one. Default: 2,000. */
  readonly maxUnidentifiedPerAddress: number
  /** How long a connection on which nobody has authenticated yet may be idle. Default: 5,000. */
  readonly unidentifiedTimeoutMs: number
  /** How long the head of a request may take. Default: 10,000. */
  readonly headersTimeoutMs: number
  /** How long a request may take to arrive, with its body. Default: 30,000. */
  readonly requestTimeoutMs: number
  /** How long an answer may be unread before the connection is cut. Default: 60,000. */
  readonly answerTimeoutMs: number
  /** Campaigns that wait in line at once, of all subjects. Default: 20,000. */
  readonly maxWaiting: number
  /**
   * Bytes of bodies that arrive at once, of all subjects; one authenticated subject may have a quarter of it. Bodies up
   * to 8 KB do not count. Default: 64 MB.
   */
  readonly maxBodyBytes: number
  /** The same for answers that are not read yet. Streams have bounds of their own. Default: 64 MB. */
  readonly maxAnswerBytes: number
  /** Bytes of memory that all groups take, about. Default: half of the heap that the process may have. */
  readonly maxGroupBytes: number
  /**
   * Requests of a subject, with twice as many at once; renewals and resignations do not count. One about many groups
   * counts once for each ten of them, and one with a body once for each 4 KB of it. Default: 1,000.
   */
  readonly requestsPerSecond: number
  /**
   * Renewals and resignations of a subject, each lease in a batch by itself; by the size of the body if that is more
   * than 128 bytes for each. Default: 50,000.
   */
  readonly renewalsPerSecond: number
  /** Groups that campaigns of a subject create, as many at once. Default: 1,000. */
  readonly newGroupsPerHour: number
  /**
   * Bytes of memory that groups of a subject take, about: at least 1 KB each, with their metadata and carry. A group
   * belongs to the subject that led it last. Default: 32 MB.
   */
  readonly groupBytesPerSubject: number
  /** Watches of a subject at once, each for up to fifty groups: a watch of more counts as several. Default: 2,000. */
  readonly watchesPerSubject: number
  /**
   * Events that watches of a subject are told of, or that its renewals cause others to be told of, with twice as many at
   * once. Beyond that, streams get changes later and renewals not at all. Default: 10,000.
   */
  readonly deliveriesPerSecond: number
  /** Campaigns of a subject that wait in line at once. Default: 2,000. */
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

/** The given limits, with defaults for the rest. */
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
