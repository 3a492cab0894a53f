import type { Clock, Timer } from '../clock.ts'
import { ApiError } from '../kubernetes/client/api-error.ts'
import { keepWatching } from './keep-watching.ts'
import type { MultiClusterLease } from './resource.ts'
import type { ResourceKey, Resources } from './resources.ts'

/** Somebody who wants to know what a resource shows. */
export interface Viewer {
  /**
   * The resource as it was seen, perhaps not for the first time; undefined if there was none. What is not an event, but
   * the answer to a request, may be older than what was seen before.
   */
  seen(resource: MultiClusterLease | undefined, isEvent: boolean): void
  /** The resource of this uid was deleted. */
  deleted(uid: string): void
  /** It cannot be watched, and that is not tried again for long. */
  unwatched(error: unknown): void
}

/** Without the right to watch, asking again each time would only be more load. */
const forbiddenMs = 300_000

/**
 * What is seen of one resource, by one watch for all calls of a store that wait for it. It stays open while somebody
 * needs it, and a while longer if a leader will soon ask again.
 */
export class ResourceView {
  readonly #resources: Resources
  readonly #key: ResourceKey
  readonly #clock: Clock
  readonly #viewers = new Set<Viewer>()
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

  /** Whether somebody needs it, or soon will. */
  get isNeeded(): boolean {
    return this.#viewers.size > 0 || this.#closing !== undefined
  }

  /** Whether changes are shown by themselves. */
  get isLive(): boolean {
    return this.#isLive
  }

  /** For messages, and for what somebody else left behind. No call is answered by it. */
  get newest(): MultiClusterLease | undefined {
    return this.#newest
  }

  /** Why it cannot be watched. */
  get forbidden(): unknown {
    return this.#forbidden && this.#clock.monotonicMs() < this.#forbidden.untilMs ? this.#forbidden.error : undefined
  }

  /** Shows everything to the viewer, from now on. */
  add(viewer: Viewer): void {
    this.#linger?.cancel()
    this.#linger = undefined
    this.#viewers.add(viewer)
    if (this.#closing || this.forbidden !== undefined) return
    this.#closing = new AbortController()
    void this.#follow(this.#closing.signal)
  }

  /** The watch is kept for `keepMs` if that is given, because a next call is to be expected; 0 expects none. */
  remove(viewer: Viewer, keepMs?: number): void {
    if (!this.#viewers.delete(viewer)) return
    const nowMs = this.#clock.monotonicMs()
    if (keepMs === 0) this.#keptUntilMs = -Infinity
    else if (keepMs !== undefined) this.#keptUntilMs = Math.max(this.#keptUntilMs, nowMs + keepMs)
    if (this.#viewers.size > 0) return
    if (this.#keptUntilMs <= nowMs) return this.close()
    this.#linger = this.#clock.setTimer(this.#keptUntilMs - nowMs, () => this.close(), { background: true })
  }

  /** Ends the watch unless somebody needs it. */
  close(): void {
    if (this.#viewers.size > 0) return
    this.#linger?.cancel()
    this.#closing?.abort()
    this.#closing = undefined
    this.#isLive = false
  }

  /** Reads the resource, once for all who ask at the same time. What goes wrong shows at the deadline. */
  look(call: { readonly signal: AbortSignal; readonly timeoutMs: number }): Promise<void> {
    this.#look ??= this.#resources
      .get(this.#key, call)
      .then((resource) => this.show(resource))
      .finally(() => (this.#look = undefined))
    return this.#look
  }

  /** Something that was seen on the way. */
  show(resource: MultiClusterLease | undefined, isEvent = false): void {
    this.#newest = resource
    for (const viewer of this.#viewers) viewer.seen(resource, isEvent)
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
      // What it showed last may be an answer.
      this.show(change.resource, true)
      if (change.type !== 'deleted') continue
      this.#newest = undefined
      for (const viewer of this.#viewers) viewer.deleted(change.resource.uid)
    }
  }

  /** Calls read until there is another watch. */
  #ended(error: unknown): void {
    this.#isLive = false
    if (!(error instanceof ApiError) || error.status !== 403) return
    this.#forbidden = { untilMs: this.#clock.monotonicMs() + forbiddenMs, error }
    this.#closing?.abort()
    this.#closing = undefined
    for (const viewer of this.#viewers) viewer.unwatched(error)
  }
}
