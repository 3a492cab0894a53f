import type { Clock } from '../clock.ts'
import { invalidOption } from '../errors.ts'
import type { Observer } from '../events.ts'
import type { AnyClient } from '../kubernetes/credentials/any-client.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseStore, Metadata } from '../lease-store.ts'
import type { Log } from '../log.ts'
import { checkMembers, checkOptions, type OptionNames } from '../options/check-options.ts'
import { checkDuration, latestDeadlineMs, shortestAnswersMs, type TimingOptions } from '../timings.ts'

/** What a LeaderElector calls, in order. */
export interface LeaderCallbacks {
  /** The work: what it returns is waited for before the lease is released. `signal` aborts when leadership ends. */
  onStartedLeading(signal: AbortSignal, leadership: Leadership): Promise<void> | void
  /**
   * Leadership is over and its work has settled, or `drainTimeoutMs` has passed. Called once for each start, never
   * without one.
   */
  readonly onStoppedLeading?: (() => void) | undefined
  /**
   * Another candidate leads now, or this process does. Empty if there is no leader: the lease seen has run out, or it was
   * given back and not taken for two retry periods, three where the store cannot watch.
   */
  readonly onNewLeader?: ((identity: string) => void) | undefined
}

/** What a LeaderElector takes, wherever its lease is kept. */
interface CommonOptions {
  readonly leaseName: string
  readonly leaseNamespace: string
  readonly identity: string | undefined
  /** Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /** For how long a leader tries to renew before it stops. Default: 10 s; two thirds of the lease if 10 s are not safe. */
  readonly renewDeadlineMs?: number | undefined
  /** How often a leader renews, and how long it waits after a failed call. Default: 2 s; less if 2 s are not safe. */
  readonly retryPeriodMs?: number | undefined
  /** How often a leader renews; longer means fewer requests and less patience. Default: `retryPeriodMs`. */
  readonly renewIntervalMs?: number | undefined
  /** Release the lease when `run` is aborted, so that others need not wait for it to run out. Default: true. */
  readonly releaseOnCancel?: boolean | undefined
  /** How long an aborted `run` waits for the work. Default: 30 s. */
  readonly drainTimeoutMs?: number | undefined
  readonly metadata?: Metadata | undefined
  readonly callbacks: LeaderCallbacks
  readonly clock?: Clock | undefined
  readonly observer?: Observer | undefined
  /**
   * Where lines about losses, errors and recoveries go, such as `console`; or false for none. Default: standard error,
   * unless the observer has an `onEvent`.
   */
  readonly log?: Log | false | undefined
}

/** What a LeaderElector takes with any store. */
export interface StoreElectorOptions extends CommonOptions {
  /** If it keeps all its leases in one namespace, that must be the `leaseNamespace`. */
  readonly store: LeaseStore
  readonly client?: undefined
}

/** What a LeaderElector takes with a Kubernetes API server. */
export interface LeaseElectorOptions extends CommonOptions {
  readonly store?: undefined
  /** `inCluster()`, `fromKubeConfig()`, or a KubeConfig of @kubernetes/client-node. */
  readonly client: AnyClient
  /** Write a Kubernetes Event about the Lease when this replica starts and when it stops leading. Default: false. */
  readonly recordEvents?: boolean | undefined
}

/** What a LeaderElector takes: the API server to keep its Lease in, or any other store. */
export type LeaderElectorOptions = LeaseElectorOptions | StoreElectorOptions

/** The names of {@link LeaderElectorOptions}. */
export const leaderElectorNames: OptionNames<LeaderElectorOptions> = {
  store: true,
  leaseName: true,
  leaseNamespace: true,
  identity: true,
  leaseDurationMs: true,
  renewDeadlineMs: true,
  retryPeriodMs: true,
  renewIntervalMs: true,
  releaseOnCancel: true,
  drainTimeoutMs: true,
  metadata: true,
  callbacks: true,
  clock: true,
  observer: true,
  log: true,
  client: true,
  recordEvents: true,
}

const callbackNames: OptionNames<LeaderCallbacks> = {
  onStartedLeading: true,
  onStoppedLeading: true,
  onNewLeader: true,
}

const usualDeadlineMs = 10_000
const usualRetryMs = 2_000
/** client-go waits up to this many retry periods between two tries. */
const retryJitter = 1.2

/**
 * The engine's timings for client-go's numbers. There a leader begins to renew a retry period after its last success,
 * and gives up `renewDeadlineMs` after it began; the engine counts from the last success. So the two are added up, as
 * far as that is safe.
 */
export function timingsLikeClientGo(options: CommonOptions & { readonly leaseDurationMs: number }) {
  const { leaseDurationMs } = options
  for (const name of ['renewDeadlineMs', 'retryPeriodMs', 'renewIntervalMs'] as const) {
    if (options[name] !== undefined) checkDuration(name, options[name], 1)
  }
  const latestMs = latestDeadlineMs(leaseDurationMs)
  const answersMs = shortestAnswersMs(leaseDurationMs)
  const renewDeadlineMs = options.renewDeadlineMs ?? deadlineFor(options, latestMs, answersMs)
  const retryPeriodMs = options.retryPeriodMs ?? retryFor(options, renewDeadlineMs, latestMs)
  if (renewDeadlineMs < retryJitter * retryPeriodMs) throw tooSlow(options, retryPeriodMs, renewDeadlineMs)
  // Early enough that a failed renewal can be tried again.
  const roomMs = latestMs - Math.max(1.1 * retryPeriodMs, answersMs)
  const renewIntervalMs = options.renewIntervalMs ?? Math.max(1, Math.min(retryPeriodMs, roomMs))
  return {
    leaseDurationMs,
    renewIntervalMs,
    // A deadline that cannot be safe is passed on as it is, and refused.
    renewDeadlineMs: Math.max(renewDeadlineMs, Math.min(renewIntervalMs + renewDeadlineMs, latestMs)),
    retryIntervalMs: retryPeriodMs,
  } satisfies TimingOptions
}

/** client-go's 10 s, unless they cannot be safe with what was given. */
function deadlineFor({ leaseDurationMs = 0, retryPeriodMs = 0 }: CommonOptions, latestMs: number, answersMs: number) {
  const neededMs = Math.max(retryJitter * retryPeriodMs, answersMs)
  if (usualDeadlineMs >= neededMs && usualDeadlineMs <= latestMs) return usualDeadlineMs
  return Math.min(latestMs, Math.max(neededMs, (leaseDurationMs * 2) / 3))
}

/** client-go's 2 s, unless they cannot be safe with what was given. */
function retryFor({ renewIntervalMs = 1 }: CommonOptions, deadlineMs: number, latestMs: number): number {
  const roomMs = Math.min(Math.floor(latestMs - renewIntervalMs), deadlineMs / retryJitter)
  return usualRetryMs <= roomMs ? usualRetryMs : Math.max(1, Math.min(deadlineMs / 5, roomMs))
}

function tooSlow(given: CommonOptions, retryPeriodMs: number, renewDeadlineMs: number): TypeError {
  const why = 'so that a failed renewal can be tried again'
  if (given.retryPeriodMs === undefined) {
    return invalidOption('renewDeadlineMs', renewDeadlineMs, `it must be at least ${retryJitter} ms, ${why}`)
  }
  const rule = `renewDeadlineMs (${Math.floor(renewDeadlineMs)}) must be at least 1.2 times as long, ${why}`
  return invalidOption('retryPeriodMs', retryPeriodMs, rule)
}

/** Callbacks that can be called. */
export function checkCallbacks(callbacks: unknown): LeaderCallbacks {
  if (typeof callbacks !== 'object' || callbacks === null || Array.isArray(callbacks)) {
    throw invalidOption('callbacks', callbacks, 'it must be an object with onStartedLeading')
  }
  // An instance of a class may have members of its own.
  const isPlain = Object.getPrototypeOf(callbacks) === Object.prototype
  if (isPlain) checkOptions('callbacks', callbacks, callbackNames)
  else checkMembers('callbacks', callbacks, Object.keys(callbackNames))
  for (const name of Object.keys(callbackNames)) {
    const callback: unknown = Reflect.get(callbacks, name)
    const optional = name !== 'onStartedLeading' && callback === undefined
    if (typeof callback !== 'function' && !optional) {
      throw invalidOption(`callbacks.${name}`, callback, 'it must be a function')
    }
  }
  return callbacks as LeaderCallbacks
}
