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
  /** Who is charged for what it is told. */
  readonly subject: string
  /** `frame` is the change as it is sent to streams, made once for all of them. */
  notify(frame: () => Frame): void
  /** Something may have happened after a position of which nobody told. */
  miss(since: Position): void
}

export interface Subscription {
  /** The subscriber was told of all changes up to here. */
  readonly position: Position
  /** May be called again. */
  leave(): void
}

/** Who may be told how much, and cause how much to be told. */
export interface DeliveryBudget {
  /** False: this subject has used up its deliveries for now, and these must wait or be left out. */
  deliver(subject: string, count: number): boolean
}

export interface HubOptions {
  readonly secret: string
  /** What was durable when the groups were read. */
  readonly position: Position
  readonly maxWatchers: number
  readonly fairQueue: Pick<FairQueue, 'runLater'>
  readonly budget: DeliveryBudget
  /** Called with the result of each delivery: whether it was made, or withheld because of the budget. */
  readonly onDelivery?: ((isMade: boolean) => void) | undefined
}

/** Renewals are left out once this many deliveries wait: the next one shows the same, and more. */
const mostBehindRenewals = 1_024
/** Once this many deliveries wait, all subscribers go on from the feed at their own pace. */
const mostWaiting = 16_384

interface Subscribed extends Subscription {
  readonly subscriber: Subscriber
  /** Deliveries with a lower number were known to the subscriber when it came. */
  readonly first: number
  /** The number of the last delivery that it was told of. */
  told: number
  hasLeft: boolean
}

interface News {
  readonly number: number
  /** Of a change that is kept. */
  readonly position: Position | undefined
}

/** Brings changes to the subscribers: all of one change before the next, in pieces. */
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
  /** What is being delivered. */
  #current: News | undefined
  /** All subscribers were told of everything up to here. */
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

  /** How many are told of each change of a group. */
  watchersOf(groupId: string): number {
    return this.#byGroup.get(groupId)?.size ?? 0
  }

  /** Takes places among the watchers. Returns what gives them back, once; undefined if all are taken. */
  enter(places: number): (() => void) | undefined {
    if (this.#places >= this.#options.maxWatchers) return undefined
    this.#watchers += 1
    this.#places += places
    return () => {
      this.#watchers -= 1
      this.#places -= places
    }
  }

  /** Reports every change from now on. */
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

  /** `from` is what it knew when it came. */
  #positionOf({ told }: Subscribed, from: Position): Position {
    if (this.#deliveries.length === 0) return this.feed.position
    const current = this.#current
    const reached = current?.position && told === current.number ? current.position : this.#delivered
    return isAfter(from, reached) ? from : reached
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
    const frame = this.#frameOf(change, position)
    this.#deliver(this.#byGroup.get(change.groupId), position, (to) => {
      const { subscriber } = to
      // It goes on from the feed once it has a budget again.
      if (!this.#mayDeliver(subscriber)) return subscriber.miss(to.position)
      to.told = this.#current?.number ?? 0
      subscriber.notify(frame)
    })
    if (this.#deliveries.length > mostWaiting) this.#giveUp()
  }

  /** Of renewals the newest counts: one that cannot be delivered now is left out. */
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

  /** Those whose groups are not concerned miss nothing. */
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

  /** Nothing is kept for subscribers for which more happens than can be delivered: they go on from the feed. */
  #giveUp(): void {
    const everybody = new Set([...this.#byGroup.values()].flatMap((subscribers) => [...subscribers]))
    this.#deliveries.drop()
    const { position } = this.feed
    this.#deliver(everybody, position, (to) => to.subscriber.miss(to.position))
  }
}

type Tell = (to: Subscribed) => void
