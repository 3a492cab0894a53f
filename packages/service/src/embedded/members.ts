import type { MemberView, Metadata } from '../state.ts'

interface Sign {
  readonly atMs: number
  readonly metadata: Metadata
}

/**
 * Who takes part, as far as one can tell: nodes that gave a sign of life a while ago at most. It lives in memory only,
 * and it is bounded; no decision depends on it. Whoever holds the lease is not noted here: the lease tells it.
 */
export class Members {
  readonly #groups = new Map<string, Map<string, Sign>>()
  readonly #ttlMs: number
  readonly #maxPerGroup: number

  constructor(options: { readonly memberTtlMs: number; readonly maxMembersPerGroup: number }) {
    this.#ttlMs = options.memberTtlMs
    this.#maxPerGroup = options.maxMembersPerGroup
  }

  note(groupId: string, nodeId: string, metadata: Metadata, nowMs: number): void {
    const signs = this.#groups.get(groupId) ?? new Map<string, Sign>()
    this.#groups.set(groupId, signs)
    // Last in, last out: the oldest signs stand first.
    signs.delete(nodeId)
    signs.set(nodeId, { atMs: nowMs, metadata })
    for (const [oldest, { atMs }] of signs) {
      if (signs.size <= this.#maxPerGroup && nowMs - atMs < this.#ttlMs) break
      signs.delete(oldest)
    }
  }

  forget(groupId: string): void {
    this.#groups.delete(groupId)
  }

  list(
    groupId: string,
    known: {
      readonly allowed: readonly string[]
      readonly last:
        | { readonly nodeId: string; readonly metadata: Metadata; readonly lastHeartbeatMs: number }
        | undefined
      readonly leaderId: string | undefined
      readonly nowMs: number
    },
  ): MemberView[] {
    const members = new Map<string, MemberView>()
    for (const nodeId of known.allowed) {
      members.set(nodeId, { nodeId, role: 'allowed', lastHeartbeatMs: undefined, metadata: {} })
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
    return [...members.values()]
  }

  /** Drops what is too old, so that groups nobody asks about do not pile up. */
  prune(nowMs: number): void {
    for (const [groupId, signs] of this.#groups) {
      for (const [nodeId, { atMs }] of signs) {
        if (nowMs - atMs < this.#ttlMs) break
        signs.delete(nodeId)
      }
      if (signs.size === 0) this.#groups.delete(groupId)
    }
  }
}
