import type { MetadataText } from '../common/checks.ts'
import type { MemberView } from './port.ts'
import { noMetadata } from './in-memory-group.ts'

interface MemberHeartbeat {
  readonly atMs: number
  /** When the node stops counting as live unless it sends another heartbeat, on the monotonic clock. */
  readonly liveUntilMs: number
  readonly instance: string | undefined
  readonly metadata: MetadataText
  readonly bytes: number
}

type GroupMember = Omit<MemberView, 'waiting' | 'live'>

/** Options for {@link Members.note}. */
interface HeartbeatOptions {
  readonly instance?: string | undefined
  readonly liveUntilMs?: number
}

/** How late a node may be with its heartbeat or its next campaign and still count as live. */
export const lateMs = 30_000

/** How many open watches are reported in one step. */
export const maxWatchesPerReport = 512

/** The approximate size of an entry without its text. */
const signBytes = 200

/**
 * The nodes that take part, meaning those that recently sent something. The list is bounded and kept only in memory,
 * and no decision depends on it. The holder of the lease is not recorded here, because the lease names it.
 */
export class Members {
  readonly #groups = new Map<string, Map<string, MemberHeartbeat>>()
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

  note(groupId: string, nodeId: string, metadata: MetadataText, nowMs: number, noted: HeartbeatOptions = {}): void {
    const { instance, liveUntilMs = -Infinity } = noted
    const signs = this.#groups.get(groupId) ?? new Map<string, MemberHeartbeat>()
    const bytes = signBytes + nodeId.length + metadata.length + (instance?.length ?? 0)
    // Move the entry and its group to the end, so that the oldest entries and the groups that were silent for longest
    // come first.
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

  /** Records that the node is alive. Keeps the metadata that the node sent before. */
  markPresent(groupId: string, nodeId: string, nowMs: number, liveUntilMs: number): void {
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

  #drop(signs: Map<string, MemberHeartbeat>, nodeId: string): void {
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
      readonly last: (Omit<GroupMember, 'role'> & { readonly lastHeartbeatMs: number }) | undefined
      readonly leaderId: string | undefined
      readonly waiting: ReadonlySet<string>
      readonly nowMs: number
      readonly monotonicMs: number
    },
  ): MemberView[] {
    const members = new Map<string, GroupMember>()
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
      // Another start of the node is alive, which says nothing about the start that leads.
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

  /** Returns how many nodes other than the leader recently sent something, and how many of them count as live. */
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
