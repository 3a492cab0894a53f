import type { WatchedEvent } from '../http/schemas/watch.ts'
import { eventOf } from '../http/views.ts'
import type { FairQueue } from '../fair-queue.ts'
import type { Break, Groups } from '../groups/groups.ts'
import { isAfter, type Position } from '../storage/position.ts'
import { Deliveries } from './deliveries.ts'
import { Feed, type Change, type Entry, type KeptChange } from './feed.ts'
import { frameOf, type Frame } from './frames.ts'
import { SnapshotCursors } from './snapshot-cursor.ts'

/** A stream or a poll that waits for changes. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** The subject that is charged for deliveries. */
  readonly subject: string
  /** Delivers a change. `frame` creates its frame for streams once for all subscribers. */
  notify(frame: () => Frame): void
  /** Reports that there may have been changes after a position that were not delivered. */
  miss(since: Position): void
}

export interface Subscription {
  /** The subscriber has received all changes up to here. */
  readonly position: Position
  /** May be called again. */
  leave(): void
}

/** Limits how much is delivered to, and caused by, each subject. */
export interface DeliveryBudget {
  /** Returns false if this subject has used up its deliveries for now. Then they must wait or be left out. */
  deliver(subject: string, count: number): boolean
}

export interface HubOptions {
  readonly secret: string
  /** The newest durable position when the groups were loaded. */
  readonly position: Position
  readonly maxWatchers: number
  readonly fairQueue: Pick<FairQueue, 'runLater'>
  readonly budget: DeliveryBudget
  /** Called for each delivery with whether it was made. False means that the budget withheld it. */
  readonly onDelivery?: ((isMade: boolean) => void) | undefined
}

/** Renewals are left out once this many deliveries wait: the next renewal shows the same, and more. */
const mostBehindRenewals = 1_024
/** Once this many deliveries wait, all subscribers continue from the feed at their own pace. */
const mostWaiting = 16_384

interface Subscribed extends Subscription {
  readonly subscriber: Subscriber
  /** The subscriber already knew deliveries with a lower number when it subscribed. */
  readonly first: number
  /** The number of the last delivery to this subscriber. */
  told: number
  hasLeft: boolean
}

interface News {
  readonly number: number
  /** The position of a kept change. Undefined for a renewal. */
  readonly position: Position | undefined
}

/** Delivers changes to the subscribers, in slices. Each change reaches all of them before the next one. */
export class Hub {
  readonly feed: Feed
  readonly snapshotCursors: SnapshotCursors
  readonly #state: Groups
  readonly #options: HubOptions
  readonly #byGroup = new Map<string, Set<Subscribed>>()
  readonly #deliveries: Deliveries<Subscribed>
  #watchers = 0
  #places = 0
  #renewalWatchers = 0
  #number = 0
  /** The delivery in progress. */
  #current: News | undefined
  /** All subscribers have received everything up to here. */
  #delivered: Position

  constructor(state: Groups, options: HubOptions) {
    this.feed = new Feed(options)
    this.snapshotCursors = new SnapshotCursors(options.secret)
    this.#state = state
    this.#options = options
    this.#deliveries = new Deliveries(options.fairQueue)
    this.#delivered = options.position
    state.follow({
      onChange: (change) => this.#onChange(change),
      onBreak: (gap) => this.#onBreak(gap),
      wantsRenewals: () => this.#renewalWatchers > 0,
      onRenewal: (change) => this.#onRenewal(change),
    })
  }

  get watchers(): number {
    return this.#watchers
  }

  /** Returns how many subscribers receive each change of a group. */
  watchersOf(groupId: string): number {
    return this.#byGroup.get(groupId)?.size ?? 0
  }

  /** Takes watcher slots. Returns a function that releases them, to be called once, or undefined if all are taken. */
  enter(places: number): (() => void) | undefined {
    if (this.#places >= this.#options.maxWatchers) return undefined
    this.#watchers += 1
    this.#places += places
    return () => {
      this.#watchers -= 1
      this.#places -= places
    }
  }

  /** Delivers every change from now on. */
  subscribe(groupIds: readonly string[], subscriber: Subscriber): Subscription {
    if (subscriber.wantsRenewals) this.#renewalWatchers += 1
    const from = this.feed.position
    const positionOf = (to: Subscribed) => this.#positionOf(to, from)
    const subscribed: Subscribed = {
      subscriber,
      first: this.#number + 1,
      told: 0,
      hasLeft: false,
      get position() {
        return positionOf(this)
      },
      leave: () => this.#leave(groupIds, subscribed),
    }
    for (const groupId of groupIds) {
      const subscribers = this.#byGroup.get(groupId)
      if (subscribers) subscribers.add(subscribed)
      else this.#byGroup.set(groupId, new Set([subscribed]))
    }
    return subscribed
  }

  #leave(groupIds: readonly string[], subscribed: Subscribed): void {
    if (subscribed.hasLeft) return
    subscribed.hasLeft = true
    if (subscribed.subscriber.wantsRenewals) this.#renewalWatchers -= 1
    for (const groupId of groupIds) {
      const subscribers = this.#byGroup.get(groupId)
      subscribers?.delete(subscribed)
      if (subscribers?.size === 0) this.#byGroup.delete(groupId)
    }
  }

  /** `from` is the position that the subscriber knew when it subscribed. */
  #positionOf({ told }: Subscribed, from: Position): Position {
    if (this.#deliveries.length === 0) return this.feed.position
    const current = this.#current
    const reached = current?.position && told === current.number ? current.position : this.#delivered
    return isAfter(from, reached) ? from : reached
  }

  /** Returns an entry as a frame for streams. Its id is the cursor to resume from. */
  frameOf(entry: Entry): Frame {
    if (entry.frame) return entry.frame
    const frame = frameOf(this.eventOf(entry), this.feed.cursorAt(entry.position))
    if (!entry.hadTexts) entry.frame = frame
    return frame
  }

  /** Returns an entry as an event of the HTTP API. */
  eventOf({ change, hadTexts }: Entry): WatchedEvent {
    if (!hadTexts) return eventOf(change)
    const texts = this.#state.textsOf(change.groupId, change.lease.term)
    return eventOf({ ...change, lease: { ...change.lease, ...texts } })
  }

  #onChange(change: KeptChange): void {
    const { position } = this.feed.add(change)
    const frame = this.#frameOf(change, position)
    this.#deliver(this.#byGroup.get(change.groupId), position, (to) => {
      const { subscriber } = to
      // The subscriber continues from the feed once it has a budget again.
      if (!this.#mayDeliver(subscriber)) return subscriber.miss(to.position)
      to.told = this.#current?.number ?? 0
      subscriber.notify(frame)
    })
    if (this.#deliveries.length > mostWaiting) this.#giveUp()
  }

  /** Only the newest renewal matters, so one that cannot be delivered now is left out. */
  #onRenewal(change: Change): void {
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers || this.#deliveries.length >= mostBehindRenewals) return
    if (change.subject !== undefined && !this.#options.budget.deliver(change.subject, subscribers.size)) return
    const frame = this.#frameOf(change, undefined)
    this.#deliver(subscribers, undefined, ({ subscriber }) => {
      if (subscriber.wantsRenewals && this.#mayDeliver(subscriber)) subscriber.notify(frame)
    })
  }

  #mayDeliver({ subject }: Subscriber): boolean {
    const isMade = this.#options.budget.deliver(subject, 1)
    this.#options.onDelivery?.(isMade)
    return isMade
  }

  /** Subscribers whose groups are not affected miss nothing. */
  #onBreak({ position, changed }: Break): void {
    const since = this.feed.position
    if (changed?.size === 0) return this.feed.advance(position)
    this.feed.skipTo(position)
    const concerned = new Set<Subscribed>()
    for (const groupId of changed ?? this.#byGroup.keys()) {
      for (const subscribed of this.#byGroup.get(groupId) ?? []) concerned.add(subscribed)
    }
    this.#deliver(concerned, position, ({ subscriber }) => subscriber.miss(since))
  }

  #frameOf(change: Change, position: Position | undefined): () => Frame {
    let made: Frame | undefined
    return () => (made ??= frameOf(eventOf(change), position && this.feed.cursorAt(position)))
  }

  #deliver(targets: ReadonlySet<Subscribed> | undefined, position: Position | undefined, tell: Tell): void {
    if (!targets) return
    this.#number += 1
    const news: News = { number: this.#number, position }
    this.#deliveries.add({
      targets: targets.values(),
      tell: (to) => {
        this.#current = news
        if (!to.hasLeft && to.first <= news.number) tell(to)
      },
      done: () => {
        this.#delivered = position ?? this.#delivered
      },
    })
  }

  /** Drops the backlog when more happens than can be delivered. The subscribers continue from the feed. */
  #giveUp(): void {
    const everybody = new Set([...this.#byGroup.values()].flatMap((subscribers) => [...subscribers]))
    this.#deliveries.drop()
    const { position } = this.feed
    this.#deliver(everybody, position, (to) => to.subscriber.miss(to.position))
  }
}

type Tell = (to: Subscribed) => void
