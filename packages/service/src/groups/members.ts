import type { MemberView, MetadataText } from './groups.ts'
import { noMetadata } from './group.ts'

interface Sign {
  readonly atMs: number
  readonly metadata: MetadataText
  readonly bytes: number
}

/** What a sign takes beside its texts, about. */
const signBytes = 200

/**
 * Who takes part, as far as one can tell: nodes that gave a sign of life a while ago at most. It lives in memory only,
 * and it is bounded; no decision depends on it. The holder of the lease is not noted here: the lease says who it is.
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
    /** For all groups together, about. Default: 32 MiB. */
    readonly maxMemberBytes?: number | undefined
  }) {
    this.#ttlMs = options.memberTtlMs
    this.#maxBytes = options.maxMemberBytes ?? 2 ** 25
    this.#maxPerGroup = options.maxMembersPerGroup
  }

  note(groupId: string, nodeId: string, metadata: MetadataText, nowMs: number): void {
    const signs = this.#groups.get(groupId) ?? new Map<string, Sign>()
    const bytes = signBytes + nodeId.length + metadata.length
    // Last in, last out: the oldest signs stand first, and the groups from which nothing was heard for longest.
    this.#groups.delete(groupId)
    this.#groups.set(groupId, signs)
    this.#drop(signs, nodeId)
    signs.set(nodeId, { atMs: nowMs, metadata, bytes })
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

  /** It said that it leads no more. It is back with its next sign. */
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

  list(
    groupId: string,
    known: {
      readonly allowed: readonly string[]
      readonly last:
        | { readonly nodeId: string; readonly metadata: MetadataText; readonly lastHeartbeatMs: number }
        | undefined
      readonly leaderId: string | undefined
      readonly waiting: ReadonlySet<string>
      readonly nowMs: number
    },
  ): MemberView[] {
    const members = new Map<string, Omit<MemberView, 'waiting'>>()
    for (const nodeId of known.allowed) {
      members.set(nodeId, { nodeId, role: 'allowed', lastHeartbeatMs: undefined, metadata: noMetadata })
    }
    for (const [nodeId, { atMs, metadata }] of this.#groups.get(groupId) ?? []) {
      if (known.nowMs - atMs >= this.#ttlMs) continue
      members.set(nodeId, { nodeId, role: 'candidate', lastHeartbeatMs: atMs, metadata })
    }
    const { last } = known
    const leads = last !== undefined && last.nodeId === known.leaderId
    if (last && (leads || known.nowMs - last.lastHeartbeatMs < this.#ttlMs)) {
      const sign = members.get(last.nodeId)
      const newer = sign?.lastHeartbeatMs !== undefined && sign.lastHeartbeatMs > last.lastHeartbeatMs
      members.set(last.nodeId, { ...(newer ? sign : last), role: leads ? 'leader' : 'candidate' })
    }
    return [...members.values()].map((member) => ({ ...member, waiting: known.waiting.has(member.nodeId) }))
  }

  /** How many gave a sign of life lately, without one of them. */
  count(groupId: string, without: string | undefined, nowMs: number): number {
    let count = 0
    for (const [nodeId, { atMs }] of this.#groups.get(groupId) ?? []) {
      if (nodeId !== without && nowMs - atMs < this.#ttlMs) count += 1
    }
    return count
  }

  /** Drops what is too old, so that groups nobody asks about do not pile up. */
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
