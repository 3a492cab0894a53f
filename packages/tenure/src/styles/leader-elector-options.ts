import type { Clock } from '../clock.ts'
import { invalidOption } from '../errors.ts'
import type { Observer } from '../events.ts'
import type { AnyClient } from '../kubernetes/credentials/any-client.ts'
import type { Leadership } from '../leadership.ts'
import type { LeaseStore, Metadata } from '../lease-store.ts'
import { checkMembers, checkOptions, type OptionNames } from '../options/check-options.ts'
import { checkDuration, latestDeadlineMs, type TimingOptions } from '../timings.ts'

/** What a LeaderElector calls, in order. */
export interface LeaderCallbacks {
  /** The work: what it returns is waited for before the lease is released. `signal` aborts when leadership ends. */
  onStartedLeading(signal: AbortSignal, leadership: Leadership): Promise<void> | void
  /**
   * Leadership is over and its work has settled, or `drainTimeoutMs` has passed. Called once for each start, never
   * without one.
   */
  onStoppedLeading?(): void
  /**
   * Another candidate leads now, or this process does. Empty if there is no leader: the lease seen has run out, or it was
   * given back and not taken for two retry periods, three where the store cannot watch.
   */
  onNewLeader?(identity: string): void
}

/** What a LeaderElector takes, wherever its lease is kept. */
interface CommonOptions {
  readonly leaseName: string
  readonly leaseNamespace: string
  readonly identity: string | undefined
  /** Default: 15 s. */
  readonly leaseDurationMs?: number | undefined
  /** For how long a leader tries to renew before it stops. Default: two thirds of the lease, 10 s. */
  readonly renewDeadlineMs?: number | undefined
  /** How often a leader renews, and how long it waits after a failed call. Default: 2/15 of the lease, 2 s. */
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
  client: true,
  recordEvents: true,
}

const callbackNames: OptionNames<LeaderCallbacks> = {
  onStartedLeading: true,
  onStoppedLeading: true,
  onNewLeader: true,
}

/**
 * The engine's timings for client-go's numbers. There a leader begins to renew a retry period after its last success,
 * and gives up `renewDeadlineMs` after it began; the engine counts from the last success. So the two are added up, as
 * far as that is safe.
 */
export function timingsLikeClientGo(options: CommonOptions & { readonly leaseDurationMs: number }) {
  const { leaseDurationMs } = options
  const { renewDeadlineMs = (leaseDurationMs * 2) / 3, retryPeriodMs = (leaseDurationMs * 2) / 15 } = options
  checkDuration('renewDeadlineMs', renewDeadlineMs, 1)
  checkDuration('retryPeriodMs', retryPeriodMs, 1)
  if (renewDeadlineMs < 1.2 * retryPeriodMs) {
    const rule = `renewDeadlineMs (${renewDeadlineMs}) must be at least 1.2 times as long, so that a failed renewal can be tried again`
    throw invalidOption('retryPeriodMs', retryPeriodMs, rule)
  }
  const latestMs = latestDeadlineMs(leaseDurationMs)
  // Early enough that a failed renewal can be tried again.
  const { renewIntervalMs = Math.min(retryPeriodMs, latestMs - 1.1 * retryPeriodMs) } = options
  checkDuration('renewIntervalMs', renewIntervalMs, 1)
  return {
    leaseDurationMs,
    renewIntervalMs,
    // A deadline that cannot be safe is passed on as it is, and refused.
    renewDeadlineMs: Math.max(renewDeadlineMs, Math.min(renewIntervalMs + renewDeadlineMs, latestMs)),
    retryIntervalMs: retryPeriodMs,
  } satisfies TimingOptions
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
