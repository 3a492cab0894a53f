import { Feed, type Change, type Entry } from './feed.ts'
import type { WatchedEvent } from './schemas.ts'
import type { ElectionState } from './state.ts'

/** Somebody who watches groups. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** `text` is the change as a line of JSON, made once for all. */
  tell(change: Change | Entry, text: string, cursor: string | undefined): void
}

/** Brings changes to those who watch. */
export class Hub {
  readonly feed: Feed
  readonly #byGroup = new Map<string, Set<Subscriber>>()
  readonly #maxWatchers: number
  readonly #describe: (change: Change) => WatchedEvent
  #watchers = 0
  #renewalWatchers = 0

  constructor(
    state: ElectionState,
    options: { readonly id: string; readonly maxWatchers: number; describe(change: Change): WatchedEvent },
  ) {
    this.feed = new Feed(options.id)
    this.#maxWatchers = options.maxWatchers
    this.#describe = options.describe
    state.follow({
      wantsRenewals: () => this.#renewalWatchers > 0,
      onChange: (change) => this.#on(change),
    })
  }

  get watchers(): number {
    return this.#watchers
  }

  get isFull(): boolean {
    return this.#watchers >= this.#maxWatchers
  }

  describe(change: Change): WatchedEvent {
    return this.#describe(change)
  }

  /** Returns what ends the subscription. */
  subscribe(groupIds: readonly string[], subscriber: Subscriber): () => void {
    this.#watchers += 1
    if (subscriber.wantsRenewals) this.#renewalWatchers += 1
    for (const groupId of groupIds) {
      const subscribers = this.#byGroup.get(groupId) ?? new Set()
      this.#byGroup.set(groupId, subscribers)
      subscribers.add(subscriber)
    }
    let ended = false
    return () => {
      if (ended) return
      ended = true
      this.#watchers -= 1
      if (subscriber.wantsRenewals) this.#renewalWatchers -= 1
      for (const groupId of groupIds) {
        const subscribers = this.#byGroup.get(groupId)
        subscribers?.delete(subscriber)
        if (subscribers?.size === 0) this.#byGroup.delete(groupId)
      }
    }
  }

  #on(change: Change): void {
    const renewal = change.type === 'RENEWED'
    const entry = renewal ? undefined : this.feed.add(change)
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers) return
    const text = JSON.stringify(this.#describe(change))
    const cursor = entry && this.feed.cursorAfter(entry.sequence)
    for (const subscriber of subscribers) {
      if (!renewal || subscriber.wantsRenewals) subscriber.tell(entry ?? change, text, cursor)
    }
  }
}
