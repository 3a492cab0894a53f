import type { WatchedEvent } from '../http/schemas/watch.ts'
import { eventOf } from '../http/views.ts'
import type { Groups } from '../groups/groups.ts'
import { Feed, type Change, type Entry } from './feed.ts'
import { frameOf, type Frame } from './frames.ts'

/** A stream or a poll that waits for changes. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** `frame` is the change as it is sent to streams, made once for all of them. */
  notify(frame: () => Frame): void
}

/** Brings changes to the subscribers. */
export class Hub {
  readonly feed: Feed
  readonly #state: Groups
  readonly #byGroup = new Map<string, Set<Subscriber>>()
  readonly #maxWatchers: number
  #watchers = 0
  #places = 0
  #renewalWatchers = 0

  constructor(state: Groups, { id, maxWatchers }: { readonly id: string; readonly maxWatchers: number }) {
    this.feed = new Feed(id)
    this.#state = state
    this.#maxWatchers = maxWatchers
    state.follow({
      wantsRenewals: () => this.#renewalWatchers > 0,
      onChange: (change) => this.#on(change),
    })
  }

  get watchers(): number {
    return this.#watchers
  }

  /** Takes places among the watchers. Returns what gives them back, once; undefined if all are taken. */
  enter(places: number): (() => void) | undefined {
    if (this.#places >= this.#maxWatchers) return undefined
    this.#watchers += 1
    this.#places += places
    return () => {
      this.#watchers -= 1
      this.#places -= places
    }
  }

  /** Reports every change from now on. Returns what ends it, which may be called again. */
  subscribe(groupIds: readonly string[], subscriber: Subscriber): () => void {
    if (subscriber.wantsRenewals) this.#renewalWatchers += 1
    for (const groupId of groupIds) {
      const subscribers = this.#byGroup.get(groupId)
      if (subscribers) subscribers.add(subscriber)
      else this.#byGroup.set(groupId, new Set([subscriber]))
    }
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      if (subscriber.wantsRenewals) this.#renewalWatchers -= 1
      for (const groupId of groupIds) {
        const subscribers = this.#byGroup.get(groupId)
        subscribers?.delete(subscriber)
        if (subscribers?.size === 0) this.#byGroup.delete(groupId)
      }
    }
  }

  /** An entry as it is sent to streams. Its id is where a reader resumes. */
  frameOf(entry: Entry): Frame {
    if (entry.frame) return entry.frame
    const frame = frameOf(this.eventOf(entry), this.feed.cursorAt(entry.position))
    if (!entry.hadTexts) entry.frame = frame
    return frame
  }

  /** An entry in the words of the HTTP API. */
  eventOf({ change, hadTexts }: Entry): WatchedEvent {
    if (!hadTexts) return eventOf(change)
    const texts = this.#state.textsOf(change.groupId, change.lease.term)
    return eventOf({ ...change, lease: { ...change.lease, ...texts } })
  }

  #on(change: Change): void {
    const renewal = change.type === 'RENEWED'
    const entry = renewal ? undefined : this.feed.add(change)
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers) return
    let made: Frame | undefined
    const frame = () => (made ??= frameOf(eventOf(change), entry && this.feed.cursorAt(entry.position)))
    for (const subscriber of subscribers) {
      if (!renewal || subscriber.wantsRenewals) subscriber.notify(frame)
    }
  }
}
