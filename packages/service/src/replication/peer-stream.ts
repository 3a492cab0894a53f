import type { LocalGroups } from '../groups/local-groups.ts'
import { textBytes } from '../groups/listing.ts'
import { isAfter, textOf, type Position } from '../storage/position.ts'
import type { Break } from '../groups/groups.ts'
import type { Change, Entry, KeptChange } from '../watch/feed.ts'
import type { PeerConnection } from './peer-connection.ts'
import type { PeerBudget, PeerChanges, PeerServerOptions } from './peer-server.ts'

/** What a follower is sent: where its stream begins, a change, a renewal, or that something in between is missing. */
export type Told =
  | { readonly after: string }
  | { readonly at: string; readonly change: Change }
  | { readonly renewal: Change }
  | { readonly at: string; readonly changed: readonly string[] | null }

/** With more unread bytes than this, the follower continues from the feed once it has read them. */
const mostUnreadBytes = 2 ** 20
/** A renewal is charged as one delivery for each of these bytes. */
const bytesPerDelivery = 1_024
/**
 * How many groups are listed for a follower that has missed something. If there are more, any group may have changed.
 */
export const mostChanged = 10_000

export interface LinkStreamOptions extends Pick<PeerServerOptions, 'changes' | 'budget'> {
  readonly groups: LocalGroups
  /** Whether the follower wants renewals. */
  readonly renewals: boolean
}

/**
 * All changes, for one follower. Nothing is buffered for it alone: when it falls behind, it continues from the feed.
 */
export class LinkStream {
  readonly #connection: PeerConnection
  readonly #changes: PeerChanges
  readonly #groups: LocalGroups
  /** The position of the last change sent. */
  #position: Position | undefined
  #isLive = false
  #isEnded = false
  readonly #leave: () => void

  constructor(connection: PeerConnection, { changes, budget, groups, renewals }: LinkStreamOptions) {
    this.#connection = connection
    this.#changes = changes
    this.#groups = groups
    this.#leave = changes.follow({
      onChange: (change) => this.#onChange(change),
      onBreak: (gap) => this.#onBreak(gap),
      wantsRenewals: () => renewals && this.#isLive,
      onRenewal: (change) => this.#onRenewal(change, budget),
    })
  }

  async begin(after: Position): Promise<void> {
    this.#position = after
    this.#tell({ after: textOf(after) })
    await this.#catchUp()
  }

  onDrain(): void {
    if (!this.#isLive && this.#position) void this.#catchUp()
  }

  end(): void {
    this.#isEnded = true
    this.#isLive = false
    this.#leave()
  }

  /** Sends what the feed has after the last change sent, or lists the groups in which something is missing. */
  async #catchUp(): Promise<void> {
    const { feed } = this.#changes
    for (;;) {
      const from = this.#position
      if (this.#isEnded || this.#isLive || !from) return
      let missed = feed.after(from)
      if (!missed || isAfter(from, feed.position)) {
        const { position } = feed
        const changed = await this.#groups.changedAfter(from, mostChanged)
        // A change may have been sent meanwhile, or the feed may have been interrupted.
        if (this.#isEnded || this.#isLive || this.#position !== from) return
        missed = feed.after(position)
        if (!missed) continue
        this.#onBreak({ position, changed }, true)
      }
      this.#isLive = true
      for (const entry of missed) this.#onChange(this.#withTexts(entry))
      // The feed may have advanced without a change, and a follower that waits for that position needs to know.
      const { position } = feed
      if (this.#isLive && this.#position && isAfter(position, this.#position)) {
        this.#onBreak({ position, changed: new Set() })
      }
      return
    }
  }

  #withTexts({ position, change, hadTexts }: Entry): KeptChange {
    const texts = hadTexts ? this.#changes.textsOf(change.groupId, change.lease.term) : undefined
    return { ...change, lease: { ...change.lease, ...texts }, position }
  }

  #onChange({ position, ...change }: KeptChange): void {
    if (!this.#isLive) return
    this.#position = position
    this.#tell({ at: textOf(position), change })
    if (this.#connection.unsentBytes > mostUnreadBytes) this.#isLive = false
  }

  /**
   * Charged to the subject that renews: a follower that wants renewals gets those of all groups. Only the newest
   * renewal matters, so one that cannot be sent now is left out.
   */
  #onRenewal(change: Change, budget: PeerBudget): void {
    if (this.#connection.unsentBytes >= mostUnreadBytes) return
    const { subject, lease } = change
    const units = Math.ceil((1 + textBytes(lease)) / bytesPerDelivery)
    if (subject === undefined || budget.deliver(subject, units)) this.#tell({ renewal: change })
  }

  #onBreak({ position, changed }: Break, isOwn = false): void {
    if (!this.#isLive && !isOwn) return
    this.#position = position
    this.#tell({ at: textOf(position), changed: changed ? [...changed] : null })
  }

  #tell(told: Told): void {
    this.#connection.queue('told', JSON.stringify(told))
  }
}
