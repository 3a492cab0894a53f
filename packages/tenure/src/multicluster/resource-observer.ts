import type { Clock, Timer } from '../common/clock.ts'
import { isApiError } from '../clients/kubernetes/api-error.ts'
import { keepWatching } from './keep-watching.ts'
import type { MultiClusterLease } from './protocol/resource-types.ts'
import type { ResourceKey, Resources } from './resources.ts'

/** Receives observations of a resource. */
export interface ResourceListener {
  /**
   * Called with the observed resource, possibly several times with the same one. Undefined if it does not exist. An
   * answer to a request (`isEvent` is false) may be older than the state that was observed before.
   */
  seen(resource: MultiClusterLease | undefined, isEvent: boolean): void
  /** Called when the resource with this uid was deleted. */
  deleted(uid: string): void
  /** Called when the resource cannot be watched. The next try is minutes away. */
  unwatched(error: unknown): void
}

/** How long to wait before trying again to watch without permission. Trying on every call would only add load. */
const forbiddenMs = 300_000

/**
 * Observes one resource with one watch, which all waiting calls of a store share. The watch stays open while it is
 * needed, and for a while longer if a leader is expected to call again soon.
 */
export class ResourceObserver {
  readonly #resources: Resources
  readonly #key: ResourceKey
  readonly #clock: Clock
  readonly #listeners = new Set<ResourceListener>()
  #closing: AbortController | undefined
  #linger: Timer | undefined
  #keptUntilMs = -Infinity
  #isLive = false
  #forbidden: { readonly untilMs: number; readonly error: unknown } | undefined
  #look: Promise<void> | undefined
  #newest: MultiClusterLease | undefined

  constructor(resources: Resources, key: ResourceKey, clock: Clock) {
    this.#resources = resources
    this.#key = key
    this.#clock = clock
  }

  /** Whether the watch is needed now or soon. */
  get isNeeded(): boolean {
    return this.#listeners.size > 0 || this.#closing !== undefined
  }

  /** Whether the watch delivers changes. */
  get isLive(): boolean {
    return this.#isLive
  }

  /**
   * The latest observed state, used for messages and for finding abandoned slots. It is never used to answer a call.
   */
  get newest(): MultiClusterLease | undefined {
    return this.#newest
  }

  /** Why the resource cannot be watched. Undefined if it can. */
  get forbidden(): unknown {
    return this.#forbidden && this.#clock.monotonicMs() < this.#forbidden.untilMs ? this.#forbidden.error : undefined
  }

  /** Notifies this listener of everything observed from now on. */
  add(listener: ResourceListener): void {
    this.#linger?.cancel()
    this.#linger = undefined
    this.#listeners.add(listener)
    if (this.#closing || this.forbidden !== undefined) return
    this.#closing = new AbortController()
    void this.#follow(this.#closing.signal)
  }

  /** Removes a listener. `keepMs` keeps the watch open for an expected next call. 0 means that no call is expected. */
  remove(listener: ResourceListener, keepMs?: number): void {
    if (!this.#listeners.delete(listener)) return
    const nowMs = this.#clock.monotonicMs()
    if (keepMs === 0) this.#keptUntilMs = -Infinity
    else if (keepMs !== undefined) this.#keptUntilMs = Math.max(this.#keptUntilMs, nowMs + keepMs)
    if (this.#listeners.size > 0) return
    if (this.#keptUntilMs <= nowMs) return this.close()
    this.#linger = this.#clock.setTimer(this.#keptUntilMs - nowMs, () => this.close(), { background: true })
  }

  /** Ends the watch unless it is needed. */
  close(): void {
    if (this.#listeners.size > 0) return
    this.#linger?.cancel()
    this.#closing?.abort()
    this.#closing = undefined
    this.#isLive = false
  }

  /** Reads the resource, once for all concurrent callers. A failed read is reported only at the deadline. */
  look(call: { readonly signal: AbortSignal; readonly timeoutMs: number }): Promise<void> {
    this.#look ??= this.#resources
      .get(this.#key, call)
      .then((resource) => this.show(resource))
      .finally(() => (this.#look = undefined))
    return this.#look
  }

  /** Passes a resource to all listeners, whether it comes from an event or from the answer to a request. */
  show(resource: MultiClusterLease | undefined, isEvent = false): void {
    this.#newest = resource
    for (const listener of this.#listeners) listener.seen(resource, isEvent)
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const report = (error: unknown) => this.#ended(error)
    for await (const change of keepWatching(this.#resources, this.#key, { clock: this.#clock, signal, report })) {
      this.#isLive = true
      if (change.type === 'all') {
        this.show(
          change.resources.find(({ name }) => name === this.#key.name),
          true,
        )
        continue
      }
      // The last state before a deletion may contain an answer.
      this.show(change.resource, true)
      if (change.type !== 'deleted') continue
      this.#newest = undefined
      for (const listener of this.#listeners) listener.deleted(change.resource.uid)
    }
  }

  /** Until another watch is open, calls poll. */
  #ended(error: unknown): void {
    this.#isLive = false
    if (!isApiError(error) || error.status !== 403) return
    this.#forbidden = { untilMs: this.#clock.monotonicMs() + forbiddenMs, error }
    this.#closing?.abort()
    this.#closing = undefined
    for (const listener of this.#listeners) listener.unwatched(error)
  }
}
