import { canSeeProcesses } from '@tenure/internal/process-status'
import { checkOptions } from '../../common/check-options.ts'
import { invalidOption } from '../../common/errors.ts'
import { checkBoolean } from '../check-values.ts'
import type { Call, ElectionState } from '../election-state.ts'
import type { LeaseStore, Outcome } from '../lease-store.ts'
import { checkDuration } from '../timings.ts'
import { GuardLink } from './guard-link.ts'
import { storeOriginOf } from './store-origin.ts'

/** Options for `releaseOnCrash`. */
export interface ReleaseOnCrashOptions {
  /**
   * The URL by which the guard opens the same store. Required for a store that was not opened by `openStore`, because
   * the guard is another process and cannot use a client of this one.
   */
  readonly storeUrl?: string | undefined
  /**
   * How long the guard waits after the process has ended, in milliseconds. Set it above the longest statement or
   * request that a server continues after its client has died. Default: 0.
   */
  readonly afterMs?: number | undefined
}

/** Where electors register: the pipe of this process, or a simulated pipe in tests. */
export type GuardRegistry = Pick<GuardLink, 'problem' | 'register' | 'sending' | 'unregister' | 'join' | 'leave'>

/**
 * One elector's use of the guard. It registers an attempt before sending it, and unregisters it once the attempt holds
 * nothing.
 */
export class ElectorGuard {
  /** The attempts that are registered. */
  readonly registered: Set<string>
  readonly #link: GuardRegistry
  readonly #storeUrl: string
  readonly #afterMs: number
  #isStarted = false

  constructor(storeUrl: string, afterMs: number, link: GuardRegistry, registered: Iterable<string> = []) {
    this.#storeUrl = storeUrl
    this.#afterMs = afterMs
    this.#link = link
    this.registered = new Set(registered)
  }

  /** Whether a crash now would be noticed, and if not, why. */
  get status(): { readonly isArmed: boolean; readonly problem: string | undefined } {
    const { problem } = this.#link
    return { isArmed: this.registered.size > 0 && problem === undefined, problem }
  }

  /** Returns advice for the log, if any. */
  start(): string | undefined {
    this.#isStarted = true
    return this.#link.join()
  }

  stop(): void {
    if (this.#isStarted) this.#link.leave()
    this.#isStarted = false
  }

  /** Called before each call is sent. If it returns a promise, the call is sent after that has settled. */
  sending(call: Call, afterTerm: number): Promise<void> | undefined {
    if (call.verb === 'acquire') {
      const { election, holder, attempt, leaseDurationMs } = call.claim
      this.registered.add(attempt)
      const fields = { storeUrl: this.#storeUrl, afterMs: this.#afterMs, afterTerm, writeIds: [attempt] }
      return this.#link.register({ election, holder, attempt, leaseDurationMs, ...fields })
    }
    if (call.verb === 'renew') return this.#link.sending(call.claim.attempt, call.claim.writeId ?? '')
    return undefined
  }

  /** A refused acquire and a confirmed release hold nothing. */
  answered(call: Call, outcome: Outcome): void {
    const settles = (call.verb === 'acquire' && !outcome.ok) || (call.verb === 'release' && outcome.ok)
    if (settles) this.#unregister(call.claim.attempt)
  }

  /**
   * Unregisters attempts that the elector itself no longer counts as its own, such as an attempt that a clone of the
   * process renews.
   */
  stepped({ own, phase, settings, grant }: ElectionState): void {
    const isLeftToExpire = phase === 'stopped' && !settings.releaseOnStop
    for (const attempt of this.registered) {
      const isOwn = own.some(({ id }) => id === attempt)
      // I4: after its newest grant, the store grants no earlier attempt of this elector.
      const isSuperseded = grant !== undefined && grant.record.attempt !== attempt
      if (!isOwn || isSuperseded || isLeftToExpire) this.#unregister(attempt)
    }
  }

  #unregister(attempt: string): void {
    if (this.registered.delete(attempt)) this.#link.unregister(attempt)
  }
}

/** Checks `releaseOnCrash` and returns the elector's guard. Undefined if none is needed. */
export function guardFor(
  option: boolean | ReleaseOnCrashOptions | undefined,
  store: LeaseStore,
): ElectorGuard | undefined {
  if (option === undefined || option === false) return undefined
  if (typeof option !== 'object') checkBoolean('releaseOnCrash', option)
  const options = typeof option === 'object' ? option : {}
  checkOptions('releaseOnCrash', options, { storeUrl: true, afterMs: true })
  const { storeUrl, afterMs = 0 } = options
  checkDuration('releaseOnCrash.afterMs', afterMs)
  const origin = storeOriginOf(store)
  if (origin?.link) return new ElectorGuard(origin.url, afterMs, origin.link)
  const refuse = (rule: string) => invalidOption('releaseOnCrash', option, rule)
  const url = storeUrl ?? origin?.url
  if (url === undefined)
    throw refuse('the guard opens the store itself: open the store with openStore(url), or pass { storeUrl }')
  const scheme = typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() : undefined
  if (scheme === undefined) throw refuse('storeUrl must be the URL of a store, as for openStore')
  if (scheme === 'memory') throw refuse('a memory store ends with its process')
  if (scheme === 'file' && !origin) throw refuse('storeUrl names a file store, but this store is not a file store')
  if (!canSeeProcesses()) throw refuse('it needs Linux with a /proc of its own PID namespace')
  const { isMainThread } = process.getBuiltinModule('node:worker_threads')
  if (!isMainThread) throw refuse('it needs the main thread: when a worker thread ends, its process may keep running')
  if (!store.terms) throw refuse('the store keeps no terms, so a guard could not identify what it releases')
  if (scheme !== 'file') return new ElectorGuard(url, afterMs, GuardLink.shared)
  if (origin?.isSlow) throw refuse('fastTakeover: false on a file store contradicts releaseOnCrash')
  // The liveness socket of the file store is faster than any guard.
  return undefined
}
