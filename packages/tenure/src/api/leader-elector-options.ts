import type { Clock } from '../common/clock.ts'
import { invalidOption } from '../common/errors.ts'
import { preferenceNames, type PreferenceOptions } from '../engine/ask-preference.ts'
import type { Observer } from '../engine/events.ts'
import type { AnyClient } from '../clients/kubernetes/credentials/any-client.ts'
import type { ReleaseOnCrashOptions } from '../engine/guard/elector-guard.ts'
import type { Leadership } from '../engine/leadership.ts'
import type { LeaseStore, Metadata } from '../engine/lease-store.ts'
import type { Log } from '../log/log.ts'
import { checkMembers, checkOptions, type OptionNames } from '../common/check-options.ts'
import { presenceNames, type PresenceOptions } from '../engine/members/check-presence.ts'
import { checkDuration, latestDeadlineMs, minRenewalWindowMs, type TimingOptions } from '../engine/timings.ts'

/** The callbacks of a LeaderElector, in the order they are called. */
export interface LeaderCallbacks {
  /**
   * Runs the work. The lease is released only after the returned promise settles. `signal` aborts when leadership ends.
   */
  onStartedLeading(signal: AbortSignal, leadership: Leadership): Promise<void> | void
  /**
   * Called after leadership ended and its work has settled, or `drainTimeoutMs` has passed. Called exactly once for
   * each `onStartedLeading`.
   */
  readonly onStoppedLeading?: (() => void) | undefined
  /**
   * Called with the identity of the leader when another candidate or this process becomes the leader. The identity is
   * empty if there is no leader: the observed lease has expired, or it was released and not acquired for two retry
   * periods (three if the store cannot be watched).
   */
  readonly onNewLeader?: ((identity: string) => void) | undefined
}

/** Options of a LeaderElector with any kind of store. */
interface CommonOptions extends PreferenceOptions, PresenceOptions {
  readonly leaseName: string
  readonly leaseNamespace: string
  readonly identity: string | undefined
  /** Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /**
   * How long a leader tries to renew before it stops. Default: 10 s, or two thirds of the lease if 10 s is not safe.
   */
  readonly renewDeadlineMs?: number | undefined
  /** How often a leader renews, and how long it waits after a failed call. Default: 2 s, or less if 2 s is not safe. */
  readonly retryPeriodMs?: number | undefined
  /**
   * How often a leader renews. A longer interval means fewer requests but less time for retries. Default:
   * `retryPeriodMs`.
   */
  readonly renewIntervalMs?: number | undefined
  /**
   * Whether to release the lease when `run` is aborted, so that others need not wait for it to expire. Default: true.
   */
  readonly releaseOnCancel?: boolean | undefined
  /**
   * Whether a guard process releases the lease as soon as this process has crashed. With `client`, pass `{ storeUrl }`,
   * such as `kubernetes://my-namespace`. Linux only. Default: false.
   */
  readonly releaseOnCrash?: boolean | ReleaseOnCrashOptions | undefined
  /** How long an aborted `run` waits for the work. Default: 30 s. */
  readonly drainTimeoutMs?: number | undefined
  readonly metadata?: Metadata | undefined
  readonly callbacks: LeaderCallbacks
  readonly clock?: Clock | undefined
  readonly observer?: Observer | undefined
  /**
   * Where to log losses, errors, and recoveries, such as `console`. False disables logging. Default: standard error,
   * unless the observer has an `onEvent`.
   */
  readonly log?: Log | false | undefined
}

/** Options of a LeaderElector with any store. */
export interface StoreElectorOptions extends CommonOptions {
  /**
   * The store that keeps the lease. If it keeps all its leases in one namespace, `leaseNamespace` must name that
   * namespace.
   */
  readonly store: LeaseStore
  readonly client?: undefined
}

/** Options of a LeaderElector with a Kubernetes API server. */
export interface LeaseElectorOptions extends CommonOptions {
  readonly store?: undefined
  /** `inCluster()`, `fromKubeConfig()`, or a KubeConfig from @kubernetes/client-node. */
  readonly client: AnyClient
  /** Whether to write a Kubernetes Event about the Lease when this replica starts and stops leading. Default: false. */
  readonly recordEvents?: boolean | undefined
}

/** Options of a LeaderElector: a client for the API server that keeps its Lease, or any other store. */
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
  releaseOnCrash: true,
  drainTimeoutMs: true,
  metadata: true,
  ...preferenceNames,
  ...presenceNames,
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
 * Converts client-go's timings to the engine's. In client-go, a leader starts to renew one retry period after its last
 * success, and gives up `renewDeadlineMs` after it started. The engine counts from the last success. So the two
 * durations are added, up to the limit that is safe.
 */
export function timingsLikeClientGo(options: CommonOptions & { readonly leaseDurationMs: number }) {
  const { leaseDurationMs } = options
  for (const name of ['renewDeadlineMs', 'retryPeriodMs', 'renewIntervalMs'] as const) {
    if (options[name] !== undefined) checkDuration(name, options[name], 1)
  }
  const latestMs = latestDeadlineMs(leaseDurationMs)
  const answersMs = minRenewalWindowMs(leaseDurationMs)
  const renewDeadlineMs = options.renewDeadlineMs ?? deadlineFor(options, latestMs, answersMs)
  const retryPeriodMs = options.retryPeriodMs ?? retryFor(options, renewDeadlineMs, latestMs)
  if (renewDeadlineMs < retryJitter * retryPeriodMs) throw tooSlow(options, retryPeriodMs, renewDeadlineMs)
  // The latest time for a renewal that leaves enough time to retry if it fails.
  const roomMs = latestMs - Math.max(1.1 * retryPeriodMs, answersMs)
  const renewIntervalMs = options.renewIntervalMs ?? Math.max(1, Math.min(retryPeriodMs, roomMs))
  return {
    leaseDurationMs,
    renewIntervalMs,
    // A deadline that can never be safe is passed unchanged, so that the engine rejects it.
    renewDeadlineMs: Math.max(renewDeadlineMs, Math.min(renewIntervalMs + renewDeadlineMs, latestMs)),
    retryIntervalMs: retryPeriodMs,
  } satisfies TimingOptions
}

/** The 10 s of client-go, unless that is unsafe with the given options. */
function deadlineFor({ leaseDurationMs = 0, retryPeriodMs = 0 }: CommonOptions, latestMs: number, answersMs: number) {
  const neededMs = Math.max(retryJitter * retryPeriodMs, answersMs)
  if (usualDeadlineMs >= neededMs && usualDeadlineMs <= latestMs) return usualDeadlineMs
  return Math.min(latestMs, Math.max(neededMs, (leaseDurationMs * 2) / 3))
}

/** The 2 s of client-go, unless that is unsafe with the given options. */
function retryFor({ renewIntervalMs = 1 }: CommonOptions, deadlineMs: number, latestMs: number): number {
  const roomMs = Math.min(Math.floor(latestMs - renewIntervalMs), deadlineMs / retryJitter)
  return usualRetryMs <= roomMs ? usualRetryMs : Math.max(1, Math.min(deadlineMs / 5, roomMs))
}

function tooSlow(given: CommonOptions, retryPeriodMs: number, renewDeadlineMs: number): TypeError {
  const why = 'so that a failed renewal can be retried'
  if (given.retryPeriodMs === undefined) {
    return invalidOption('renewDeadlineMs', renewDeadlineMs, `it must be at least ${retryJitter} ms, ${why}`)
  }
  const rule = `renewDeadlineMs (${Math.floor(renewDeadlineMs)}) must be at least 1.2 times as long, ${why}`
  return invalidOption('retryPeriodMs', retryPeriodMs, rule)
}

/** Checks that the callbacks are functions. */
export function checkCallbacks(callbacks: unknown): LeaderCallbacks {
  if (typeof callbacks !== 'object' || callbacks === null || Array.isArray(callbacks)) {
    throw invalidOption('callbacks', callbacks, 'it must be an object with onStartedLeading')
  }
  // An instance of a class may have other members.
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
