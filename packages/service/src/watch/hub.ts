import type { WatchedEvent } from '../schemas/watch.ts'
import { eventOf } from '../schemas/views.ts'
import type { FairQueue } from '../common/fair-queue.ts'
import type { ChangeGap, GroupChange, Groups, KeptChange } from '../groups/port.ts'
import { isAfter, type Position } from '../storage/position.ts'
import { Deliveries } from './deliveries.ts'
import { Feed, type FeedEntry } from './feed.ts'
import { frameOf, type Frame } from './frames.ts'
import { SnapshotCursors } from './snapshot-cursor.ts'

/** A stream or a poll that waits for changes. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** The subject that is charged for deliveries. */
  readonly subject: string
  /** Delivers a change. `frame` creates its frame for streams once for all subscribers. */
  notify(frame: () => Frame): void
  /** Reports that some changes after a position may not have been delivered. */
  miss(since: Position): void
}

export interface Subscription {
  /** The subscriber has received all changes up to this position. */
  readonly position: Position
  /** Ends the subscription. May be called again. */
  leave(): void
}

/** Limits the deliveries that each subject receives and causes. */
export interface DeliveryBudget {
  /**
   * Returns false if this subject's budget for deliveries is used up for now. The deliveries must then wait or be
   * dropped.
   */
  deliver(subject: string, count: number): boolean
}

export interface HubOptions {
  readonly secret: string
  /** The newest durable position when the groups were loaded. */
  readonly position: Position
  readonly maxWatchers: number
  readonly fairQueue: Pick<FairQueue, 'runLater'>
  readonly budget: DeliveryBudget
  /** Called for each delivery. `isMade` is false if the budget prevented it. */
  readonly onDelivery?: ((isMade: boolean) => void) | undefined
}

/** Renewals are left out once this many deliveries wait, because the next renewal shows the newer state. */
const maxBehindRenewals = 1_024
/** Once this many deliveries wait, all subscribers continue from the feed at their own pace. */
const maxWaiting = 16_384

interface ActiveSubscription extends Subscription {
  readonly subscriber: Subscriber
  /** The number of the first delivery to send. The subscriber already knew all earlier ones when it subscribed. */
  readonly first: number
  /** The number of the last delivery to this subscriber. */
  lastDelivery: number
  hasLeft: boolean
}

interface PendingDelivery {
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
  readonly #byGroup = new Map<string, Set<ActiveSubscription>>()
  readonly #deliveries: Deliveries<ActiveSubscription>
  #watchers = 0
  #slots = 0
  #renewalWatchers = 0
  #number = 0
  /** The delivery in progress. */
  #current: PendingDelivery | undefined
  /** All subscribers have received everything up to this position. */
  #delivered: Position

  constructor(state: Groups, options: HubOptions) {
    this.feed = new Feed(options)
    this.snapshotCursors = new SnapshotCursors(options.secret)
    this.#state = state
    this.#options = options
    this.#deliveries = new Deliveries(options.fairQueue)
    this.#delivered = options.position
    state.listen({
      onChange: (change) => this.#onChange(change),
      onGap: (gap) => this.#onBreak(gap),
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

  /**
   * Takes watcher slots. Returns a function that releases them, which must be called once, or undefined if all slots
   * are taken.
   */
  enter(slots: number): (() => void) | undefined {
    if (this.#slots >= this.#options.maxWatchers) return undefined
    this.#watchers += 1
    this.#slots += slots
    return () => {
      this.#watchers -= 1
      this.#slots -= slots
    }
  }

  /** Delivers every change from now on. */
  subscribe(groupIds: readonly string[], subscriber: Subscriber): Subscription {
    if (subscriber.wantsRenewals) this.#renewalWatchers += 1
    const from = this.feed.position
    const positionOf = (to: ActiveSubscription) => this.#positionOf(to, from)
    const subscribed: ActiveSubscription = {
      subscriber,
      first: this.#number + 1,
      lastDelivery: 0,
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

  #leave(groupIds: readonly string[], subscribed: ActiveSubscription): void {
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
  #positionOf({ lastDelivery }: ActiveSubscription, from: Position): Position {
    if (this.#deliveries.length === 0) return this.feed.position
    const current = this.#current
    const reached = current?.position && lastDelivery === current.number ? current.position : this.#delivered
    return isAfter(from, reached) ? from : reached
  }

  /** Returns an entry as a frame for streams. Its id is the cursor to resume from. */
  frameOf(entry: FeedEntry): Frame {
    if (entry.frame) return entry.frame
    const frame = frameOf(this.eventOf(entry), this.feed.cursorAt(entry.position))
    if (!entry.hadTexts) entry.frame = frame
    return frame
  }

  /** Returns an entry as an event of the HTTP API. */
  eventOf({ change, hadTexts }: FeedEntry): WatchedEvent {
    if (!hadTexts) return eventOf(change)
    const texts = this.#state.textsOf(change.groupId, change.lease.term)
    return eventOf({ ...change, lease: { ...change.lease, ...texts } })
  }

  #onChange(change: KeptChange): void {
    const { position } = this.feed.add(change)
    const frame = this.#frameOf(change, position)
    this.#deliver(this.#byGroup.get(change.groupId), position, (to) => {
      const { subscriber } = to
      // The subscriber continues from the feed once its budget allows.
      if (!this.#mayDeliver(subscriber)) return subscriber.miss(to.position)
      to.lastDelivery = this.#current?.number ?? 0
      subscriber.notify(frame)
    })
    if (this.#deliveries.length > maxWaiting) this.#giveUp()
  }

  /** Delivers a renewal, or drops it if it cannot be delivered now. Only the newest renewal matters. */
  #onRenewal(change: GroupChange): void {
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers || this.#deliveries.length >= maxBehindRenewals) return
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

  /** Notifies the subscribers of affected groups that they missed something. The others missed nothing. */
  #onBreak({ position, changed }: ChangeGap): void {
    const since = this.feed.position
    if (changed?.size === 0) return this.feed.advance(position)
    this.feed.skipTo(position)
    const concerned = new Set<ActiveSubscription>()
    for (const groupId of changed ?? this.#byGroup.keys()) {
      for (const subscribed of this.#byGroup.get(groupId) ?? []) concerned.add(subscribed)
    }
    this.#deliver(concerned, position, ({ subscriber }) => subscriber.miss(since))
  }

  #frameOf(change: GroupChange, position: Position | undefined): () => Frame {
    let made: Frame | undefined
    return () => (made ??= frameOf(eventOf(change), position && this.feed.cursorAt(position)))
  }

  #deliver(targets: ReadonlySet<ActiveSubscription> | undefined, position: Position | undefined, tell: Tell): void {
    if (!targets) return
    this.#number += 1
    const news: PendingDelivery = { number: this.#number, position }
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

type Tell = (to: ActiveSubscription) => void
