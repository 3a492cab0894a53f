import type { MemberView, MetadataText } from './groups.ts'
import { noMetadata } from './group.ts'

interface Sign {
  readonly atMs: number
  /** Until when the node counts as live without another heartbeat, on the monotonic clock. */
  readonly liveUntilMs: number
  readonly instance: string | undefined
  readonly metadata: MetadataText
  readonly bytes: number
}

type Member = Omit<MemberView, 'waiting' | 'live'>

/** What {@link Members.note} takes besides a node and its metadata. */
interface Noted {
  readonly instance?: string | undefined
  readonly liveUntilMs?: number
}

/** How late a node that sent a heartbeat, or is due to campaign again, may be and still count as live. */
export const lateMs = 30_000

/** How many open watches are reported in one step. */
export const mostPresent = 512

/** The approximate size of an entry without its texts. */
const signBytes = 200

/**
 * The nodes that take part, as far as is known: those that recently sent something. This is kept only in memory, it is
 * bounded, and no decision depends on it. The holder of the lease is not recorded here, because the lease names it.
 */
export class Members {
  readonly #groups = new Map<string, Map<string, Sign>>()
  readonly #ttlMs: number
  readonly #maxPerGroup: number
  readonly #maxBytes: number
  #bytes = 0

  constructor(options: {
    readonly memberTtlMs: number
    readonly maxMembersPerGroup: number
    /** The approximate limit for all groups together. Default: 32 MiB. */
    readonly maxMemberBytes?: number | undefined
  }) {
    this.#ttlMs = options.memberTtlMs
    this.#maxBytes = options.maxMemberBytes ?? 2 ** 25
    this.#maxPerGroup = options.maxMembersPerGroup
  }

  note(groupId: string, nodeId: string, metadata: MetadataText, nowMs: number, noted: Noted = {}): void {
    const { instance, liveUntilMs = -Infinity } = noted
    const signs = this.#groups.get(groupId) ?? new Map<string, Sign>()
    const bytes = signBytes + nodeId.length + metadata.length + (instance?.length ?? 0)
    // Move both to the end. So the oldest entries come first, and so do the groups that were silent for longest.
    this.#groups.delete(groupId)
    this.#groups.set(groupId, signs)
    this.#drop(signs, nodeId)
    signs.set(nodeId, { atMs: nowMs, liveUntilMs, instance, metadata, bytes })
    this.#bytes += bytes
    for (const [oldest, { atMs }] of signs) {
      if (signs.size <= this.#maxPerGroup && nowMs - atMs < this.#ttlMs) break
      this.#drop(signs, oldest)
    }
    for (const [silent, others] of this.#groups) {
      if (this.#bytes <= this.#maxBytes) break
      for (const oldest of others.keys()) if (this.#bytes > this.#maxBytes) this.#drop(others, oldest)
      if (others.size === 0) this.#groups.delete(silent)
    }
  }

  /** Records that the node is there, and keeps what it sent about itself before. */
  present(groupId: string, nodeId: string, nowMs: number, liveUntilMs: number): void {
    const { metadata = noMetadata, instance } = this.#groups.get(groupId)?.get(nodeId) ?? {}
    this.note(groupId, nodeId, metadata, nowMs, { instance, liveUntilMs })
  }

  /** Records that the node has resigned. Its next heartbeat or campaign adds it again. */
  leave(groupId: string, nodeId: string): void {
    const signs = this.#groups.get(groupId)
    if (signs) this.#drop(signs, nodeId)
  }

  forget(groupId: string): void {
    for (const { bytes } of this.#groups.get(groupId)?.values() ?? []) this.#bytes -= bytes
    this.#groups.delete(groupId)
  }

  #drop(signs: Map<string, Sign>, nodeId: string): void {
    this.#bytes -= signs.get(nodeId)?.bytes ?? 0
    signs.delete(nodeId)
  }

  /** Returns the approximate size of {@link list} as text. */
  bytesOf(groupId: string): number {
    let sum = 0
    for (const { bytes } of this.#groups.get(groupId)?.values() ?? []) sum += bytes
    return sum
  }

  list(
    groupId: string,
    known: {
      readonly allowed: readonly string[]
      readonly last: (Omit<Member, 'role'> & { readonly lastHeartbeatMs: number }) | undefined
      readonly leaderId: string | undefined
      readonly waiting: ReadonlySet<string>
      readonly nowMs: number
      readonly monotonicMs: number
    },
  ): MemberView[] {
    const members = new Map<string, Member>()
    const signs = this.#groups.get(groupId)
    for (const nodeId of known.allowed) {
      const silent = { lastHeartbeatMs: undefined, instance: undefined, metadata: noMetadata }
      members.set(nodeId, { nodeId, role: 'allowed', ...silent })
    }
    for (const [nodeId, { atMs, instance, metadata }] of signs ?? []) {
      if (known.nowMs - atMs >= this.#ttlMs) continue
      members.set(nodeId, { nodeId, role: 'candidate', lastHeartbeatMs: atMs, instance, metadata })
    }
    for (const nodeId of known.waiting) {
      const { instance, metadata = noMetadata } = signs?.get(nodeId) ?? {}
      members.set(nodeId, { nodeId, role: 'candidate', lastHeartbeatMs: known.nowMs, instance, metadata })
    }
    const { last } = known
    const leads = last !== undefined && last.nodeId === known.leaderId
    if (last && (leads || known.nowMs - last.lastHeartbeatMs < this.#ttlMs)) {
      const sign = members.get(last.nodeId)
      const newer = sign?.lastHeartbeatMs !== undefined && sign.lastHeartbeatMs > last.lastHeartbeatMs
      // Another start of the node is alive. That says nothing about the one that leads.
      const isOther = leads && sign?.instance !== undefined && sign.instance !== last.instance
      const shown = newer && !isOther ? { ...sign, instance: sign.instance ?? last.instance } : last
      members.set(last.nodeId, { ...shown, role: leads ? 'leader' : 'candidate' })
    }
    return [...members.values()].map((member) => {
      const waiting = known.waiting.has(member.nodeId)
      const isPresent = (signs?.get(member.nodeId)?.liveUntilMs ?? -Infinity) > known.monotonicMs
      return { ...member, waiting, live: member.role === 'leader' || waiting || isPresent }
    })
  }

  /** Returns how many nodes recently sent something, and how many of them count as live, without the leader. */
  count(
    groupId: string,
    { leaderId, waiting, nowMs, monotonicMs }: Parameters<Members['list']>[1],
  ): { readonly candidates: number; readonly standbys: number } {
    const signs = this.#groups.get(groupId)
    let [candidates, standbys] = [0, 0]
    for (const [nodeId, { atMs, liveUntilMs }] of signs ?? []) {
      if (nodeId === leaderId || waiting.has(nodeId)) continue
      if (nowMs - atMs < this.#ttlMs) candidates += 1
      if (liveUntilMs > monotonicMs) standbys += 1
    }
    const inLine = waiting.size - (leaderId !== undefined && waiting.has(leaderId) ? 1 : 0)
    return { candidates: candidates + inLine, standbys: standbys + inLine }
  }

  /** Drops old entries, so that groups that nobody asks about do not pile up. */
  prune(nowMs: number): void {
    for (const [groupId, signs] of this.#groups) {
      for (const [nodeId, { atMs }] of signs) {
        if (nowMs - atMs < this.#ttlMs) break
        this.#drop(signs, nodeId)
      }
      if (signs.size === 0) this.#groups.delete(groupId)
    }
  }
}
