import type { LocalGroups } from '../groups/local-groups.ts'
import { textBytes } from '../groups/listing.ts'
import { isAfter, textOf, type Position } from '../storage/position.ts'
import type { ChangeGap, GroupChange, KeptChange } from '../groups/port.ts'
import type { FeedEntry } from '../watch/feed.ts'
import type { PeerConnection } from './peer-connection.ts'
import type { PeerBudget, PeerChanges, PeerServerOptions } from './peer-server.ts'

/** A message to a follower: the start of its stream, a change, a renewal, or a gap where changes are missing. */
export type StreamItem =
  | { readonly after: string }
  | { readonly at: string; readonly change: GroupChange }
  | { readonly renewal: GroupChange }
  | { readonly at: string; readonly changed: readonly string[] | null }

/** With more unread bytes than this, the follower continues from the feed once it has read them. */
const maxUnreadBytes = 2 ** 20
/** How many bytes of a renewal are charged as one delivery. */
const bytesPerDelivery = 1_024
/**
 * How many groups are listed for a follower that has missed something. If there are more, any group may have changed.
 */
export const maxListedGroups = 10_000

export interface PeerStreamOptions extends Pick<PeerServerOptions, 'changes' | 'budget'> {
  readonly groups: LocalGroups
  /** Whether the follower wants renewals. */
  readonly renewals: boolean
}

/** The last change that a stream sent, and its JSON. All followers get the same text, one after another. */
let lastSent: { readonly change: KeptChange; readonly json: string } | undefined

function jsonOf(change: KeptChange): string {
  if (lastSent?.change === change) return lastSent.json
  const { position, ...rest } = change
  const item: StreamItem = { at: textOf(position), change: rest }
  lastSent = { change, json: JSON.stringify(item) }
  return lastSent.json
}

/**
 * Sends all changes to one follower. Nothing is buffered for that follower alone. If it falls behind, it continues from
 * the feed.
 */
export class PeerStream {
  readonly #connection: PeerConnection
  readonly #changes: PeerChanges
  readonly #groups: LocalGroups
  /** The position of the last change sent. */
  #position: Position | undefined
  #isLive = false
  #isEnded = false
  readonly #leave: () => void

  constructor(connection: PeerConnection, { changes, budget, groups, renewals }: PeerStreamOptions) {
    this.#connection = connection
    this.#changes = changes
    this.#groups = groups
    this.#leave = changes.listen({
      onChange: (change) => this.#onChange(change),
      onGap: (gap) => this.#onBreak(gap),
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

  /** Sends all changes in the feed after the last change sent, or lists the groups with missing changes. */
  async #catchUp(): Promise<void> {
    const { feed } = this.#changes
    for (;;) {
      const from = this.#position
      if (this.#isEnded || this.#isLive || !from) return
      // A follower that has just read the storage may be ahead of this feed by one batch, whose answer has not arrived
      // here yet. The follower already has that batch, and ignores changes up to its own position.
      let missed = feed.after(from)
      if (!missed) {
        const { position } = feed
        const changed = await this.#groups.changedAfter(from, maxListedGroups)
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

  #withTexts({ position, change, hadTexts }: FeedEntry): KeptChange {
    const texts = hadTexts ? this.#changes.textsOf(change.groupId, change.lease.term) : undefined
    return { ...change, lease: { ...change.lease, ...texts }, position }
  }

  #onChange(change: KeptChange): void {
    if (!this.#isLive) return
    this.#position = change.position
    this.#connection.queue('told', jsonOf(change))
    if (this.#connection.unsentBytes > maxUnreadBytes) this.#isLive = false
  }

  /**
   * A renewal is charged to the subject that renews, because a follower that wants renewals gets the renewals of all
   * groups. Only the newest renewal matters, so a renewal that cannot be sent now is dropped.
   */
  #onRenewal(change: GroupChange, budget: PeerBudget): void {
    if (this.#connection.unsentBytes >= maxUnreadBytes) return
    const { subject, lease } = change
    const units = Math.ceil((1 + textBytes(lease)) / bytesPerDelivery)
    if (subject === undefined || budget.deliver(subject, units)) this.#tell({ renewal: change })
  }

  #onBreak({ position, changed }: ChangeGap, isOwn = false): void {
    if (!this.#isLive && !isOwn) return
    this.#position = position
    this.#tell({ at: textOf(position), changed: changed ? [...changed] : null })
  }

  #tell(told: StreamItem): void {
    this.#connection.queue('told', JSON.stringify(told))
  }
}
