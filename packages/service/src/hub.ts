import { Feed, type Change, type Entry } from './feed.ts'
import type { WatchedEvent } from './schemas.ts'
import type { ElectionState } from './state.ts'

/** What somebody who watches is told through. */
export interface Subscriber {
  readonly wantsRenewals: boolean
  /** `frame` is the change as it is sent to streams, made once for all of them. */
  tell(change: Change, frame: () => Buffer): void
}

/** Brings changes to those who watch. */
export class Hub {
  readonly feed: Feed
  /** A change in the words of the HTTP API. */
  readonly describe: (change: Change) => WatchedEvent
  readonly #byGroup = new Map<string, Set<Subscriber>>()
  readonly #maxWatchers: number
  #watchers = 0
  #places = 0
  #renewalWatchers = 0

  constructor(
    state: ElectionState,
    options: { readonly id: string; readonly maxWatchers: number; describe(change: Change): WatchedEvent },
  ) {
    this.feed = new Feed(options.id)
    this.#maxWatchers = options.maxWatchers
    this.describe = options.describe
    state.follow({
      wantsRenewals: () => this.#renewalWatchers > 0,
      onChange: (change) => this.#on(change),
    })
  }

  get watchers(): number {
    return this.#watchers
  }

  /** Takes places among the watchers. Returns what gives them back, or nothing if all are taken. */
  enter(places: number): (() => void) | undefined {
    if (this.#places >= this.#maxWatchers) return undefined
    this.#watchers += 1
    this.#places += places
    return once(() => {
      this.#watchers -= 1
      this.#places -= places
    })
  }

  /** Tells of every change from now on. Returns what ends it. */
  subscribe(groupIds: readonly string[], subscriber: Subscriber): () => void {
    if (subscriber.wantsRenewals) this.#renewalWatchers += 1
    for (const groupId of groupIds) {
      const subscribers = this.#byGroup.get(groupId)
      if (subscribers) subscribers.add(subscriber)
      else this.#byGroup.set(groupId, new Set([subscriber]))
    }
    return once(() => {
      if (subscriber.wantsRenewals) this.#renewalWatchers -= 1
      for (const groupId of groupIds) {
        const subscribers = this.#byGroup.get(groupId)
        subscribers?.delete(subscriber)
        if (subscribers?.size === 0) this.#byGroup.delete(groupId)
      }
    })
  }

  /** An entry as it is sent to streams. Its id is where a reader goes on. */
  frameOf(entry: Entry): Buffer {
    entry.frame ??= frameOf(this.describe(entry.change), this.feed.cursorAt(entry.position))
    return entry.frame
  }

  #on(change: Change): void {
    const renewal = change.type === 'RENEWED'
    const entry = renewal ? undefined : this.feed.add(change)
    const subscribers = this.#byGroup.get(change.groupId)
    if (!subscribers) return
    let made: Buffer | undefined
    const frame = () => (made ??= entry ? this.frameOf(entry) : frameOf(this.describe(change)))
    for (const subscriber of subscribers) {
      if (!renewal || subscriber.wantsRenewals) subscriber.tell(change, frame)
    }
  }
}

const data = 'data: '

/** One event of a stream. Without a name, so that the browser's `onmessage` gets it. */
export function frameOf(event: WatchedEvent, cursor?: string): Buffer {
  const id = cursor === undefined ? '' : `id: ${cursor}\n`
  return Buffer.from(`${id}${data}${JSON.stringify(event)}\n\n`)
}

/** The event alone, as JSON. */
export function jsonOf(frame: Buffer): string {
  return frame.toString('utf8', frame.indexOf(data) + data.length, frame.length - 2)
}

function once(run: () => void): () => void {
  let done = false
  return () => {
    if (done) return
    done = true
    run()
  }
}
