/** Who owns which shard, as this process last saw it. It may be stale, so the receiver checks `owns()` as well. */
import type { Metadata } from '../engine/lease-store.ts'
import { decodeOffer } from '../engine/members/member-record.ts'
import { invalidOption } from '../common/errors.ts'
import type { Assignment, MemberId } from './assignment.ts'
import type { ShardMember } from './changes.ts'
import { shardOf } from './hash.ts'
import type { GroupMembership } from './options.ts'
import { readSeatRecord } from './read-seats.ts'

/** The owner of a shard, as last seen. */
export interface ShardOwner {
  readonly identity: string
  /** What the owner passed as `metadata`, such as its address. */
  readonly metadata: Metadata
  readonly shard: number
  /** The name of the shard. Undefined if shards have only numbers. */
  readonly name: string | undefined
  readonly token: number
  readonly isMe: boolean
}

type Offer = Pick<ShardOwner, 'identity' | 'metadata'>

/** Knows the newest assignment, and what its members offer. Each seat is read once per member. */
export class RoutingTable {
  readonly #membership: GroupMembership
  readonly #ownAttempt: () => string
  readonly #onMembers: (members: readonly ShardMember[]) => void
  readonly #end = new AbortController()
  readonly #offers = new Map<string, Offer>()
  #assignment: Assignment | undefined
  #reading: Promise<void> | undefined
  #told = ''

  constructor(
    membership: GroupMembership,
    ownAttempt: () => string,
    onMembers: (members: readonly ShardMember[]) => void,
  ) {
    this.#membership = membership
    this.#ownAttempt = ownAttempt
    this.#onMembers = onMembers
  }

  get assignment(): Assignment | undefined {
    return this.#assignment
  }

  /** Takes an assignment from a linearizable read. Resolves when its members are known, or could not be read. */
  see(assignment: Assignment): Promise<void> {
    this.#assignment = assignment
    const named = new Set(assignment.members.map(({ attempt }) => attempt))
    for (const attempt of this.#offers.keys()) if (!named.has(attempt)) this.#offers.delete(attempt)
    this.#reading ??= this.#readOffers().finally(() => (this.#reading = undefined))
    return this.#reading
  }

  stop(): void {
    this.#end.abort()
  }

  /** The shard of a key: the one that its hash selects, or the one with this name. */
  shardOf(key: string): number {
    const { shards, names } = this.#membership.settings
    if (typeof key !== 'string') throw invalidOption('key', key, 'it must be text')
    if (!names) return shardOf(key, shards)
    const shard = names.indexOf(key)
    if (shard < 0) throw invalidOption('key', key, 'it must be the name of a shard, because the shards have names')
    return shard
  }

  ownerOf(shard: number): ShardOwner | undefined {
    const found = this.#assignment?.shards[shard]
    if (found?.state !== 'owned') return undefined
    const offer = this.#offerOf(found.owner)
    const name = this.#membership.settings.names?.[shard]
    return offer && { ...offer, shard, name, token: found.token, isMe: this.#isMe(found.owner) }
  }

  members(): readonly ShardMember[] {
    const { members = [], shards = [] } = this.#assignment ?? {}
    return members.flatMap((member): ShardMember[] => {
      const offer = this.#offerOf(member)
      const owned = shards.filter((one) => one.state === 'owned' && one.owner.attempt === member.attempt).length
      return offer ? [{ ...offer, seat: member.seat, shards: owned, isMe: this.#isMe(member) }] : []
    })
  }

  #isMe({ attempt }: MemberId): boolean {
    return attempt === this.#ownAttempt()
  }

  #offerOf(member: MemberId): Offer | undefined {
    const { identity, metadata } = this.#membership
    return this.#isMe(member) ? { identity, metadata } : this.#offers.get(member.attempt)
  }

  async #readOffers(): Promise<void> {
    const { timings } = this.#membership
    const bounds = { timeoutMs: 2 * timings.retryIntervalMs, signal: this.#end.signal }
    const tried = new Set<string>()
    for (;;) {
      const isMissing = (member: MemberId) => !this.#offerOf(member) && !tried.has(member.attempt)
      const member = this.#assignment?.members.find(isMissing)
      if (!member) break
      tried.add(member.attempt)
      // Tried again with the next read of the group. The coordinator's elector reports a store that fails.
      const record = await readSeatRecord(this.#membership, member.seat, bounds).catch(() => undefined)
      if (record?.attempt !== member.attempt) continue
      this.#offers.set(member.attempt, { identity: record.holder, metadata: decodeOffer(record).metadata })
    }
    this.#tell()
  }

  #tell(): void {
    const members = this.members()
    const text = JSON.stringify(members)
    if (text === this.#told || this.#end.signal.aborted) return
    this.#told = text
    this.#onMembers(members)
  }
}
