import type { WatchedEvent } from '../http/schemas/watch.ts'
import { eventOf } from '../http/views.ts'
import type { Break, Groups } from '../groups/groups.ts'
import type { Position } from '../storage/position.ts'
import { Feed, type Change, type Entry, type KeptChange } from './feed.ts'
import { frameOf, type Frame } from './frames.ts'

/** A stream or a poll that waits for changes. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** `frame` is the change as it is sent to streams, made once for all of them. */
  notify(frame: () => Frame): void
  /** Something may have happened after a position of which nobody told. */
  miss(since: Position): void
}

export interface HubOptions {
  readonly secret: string
  /** What was durable when the groups were read. */
  readonly position: Position
  readonly maxWatchers: number
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

  constructor(state: Groups, options: HubOptions) {
    this.feed = new Feed(options)
    this.#state = state
    this.#maxWatchers = options.maxWatchers
    state.follow({
      onChange: (change) => this.#onChange(change),
      onBreak: (gap) => this.#onBreak(gap),
      wantsRenewals: () => this.#renewalWatchers > 0,
      onRenewal: (change) => this.#tell(change, ({ wantsRenewals }) => wantsRenewals),
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

  #onChange(change: KeptChange): void {
    const { position } = this.feed.add(change)
    this.#tell(change, () => true, position)
  }

  /** Those whose groups are not concerned miss nothing. */
  #onBreak({ position, changed }: Break): void {
    const since = this.feed.position
    if (changed?.size === 0) return this.feed.advance(position)
    this.feed.skipTo(position)
    const concerned = new Set<Subscriber>()
    for (const groupId of changed ?? this.#byGroup.keys()) {
      for (const subscriber of this.#byGroup.get(groupId) ?? []) concerned.add(subscriber)
    }
    for (const subscriber of concerned) subscriber.miss(since)
  }

  #tell(change: Change, isFor: (subscriber: Subscriber) => boolean, position?: Position): void {
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers) return
    let made: Frame | undefined
    const frame = () => (made ??= frameOf(eventOf(change), position && this.feed.cursorAt(position)))
    for (const subscriber of subscribers) if (isFor(subscriber)) subscriber.notify(frame)
  }
}
