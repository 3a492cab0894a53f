/** Clients that share groups and record their requests and the answers. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Answer } from './disk/service-process.ts'
import type { Operation } from './linearizable.ts'

/** Sends a call to the client's group. Resolves to undefined if the outcome of the call is unknown. */
export type Ask = (call: Operation['call'], body?: object) => Promise<Operation['answer']>

export interface Part {
  /** The number of the client. Its lease durations, and whether it resigns, depend on it. */
  readonly index: number
  readonly node: string
  readonly ask: Ask
  isOver(): boolean
  /** Returns a value that changes whenever the service was interrupted. */
  life(): unknown
}

/** Campaigns, renews, resigns, and reads until `isOver` returns true. */
export async function takePart({ index, node, ask, isOver, life }: Part): Promise<void> {
  // The clients that resign use leases that outlast an interruption.
  const resigns = index % 3 === 0
  const ttlMs = resigns ? 30_000 : 150 + (index % 5) * 50
  while (!isOver()) {
    const before = life()
    const won = await ask({ type: 'campaign', ttlMs }, { lease_ttl_ms: ttlMs })
    const term = won?.leader?.term
    // If the answer to an earlier campaign was lost, the client may lead without this grant.
    const mine = won?.ok || won?.leader?.node === node
    if (!mine || term === undefined) {
      await delay(5 + (index % 7))
      if (index % 4 === 0) await ask({ type: 'leader' })
      continue
    }
    for (let renewal = 0; renewal < index % 4; renewal++) {
      await delay(30)
      const extendByMs = ttlMs + (renewal % 2) * 100
      const renewed = await ask({ type: 'renew', term, ttlMs: extendByMs }, { term, extend_by_ms: extendByMs })
      if (!renewed?.ok) break
    }
    // A lease that outlives an interruption lasts longer. Resign, so that others can lead before the next interruption.
    if (resigns || !won?.ok || life() !== before) await ask({ type: 'resign', term }, { term })
  }
}

/** The information that a client gets from a response. */
export function answerOf({ status, body }: Answer): NonNullable<Operation['answer']> {
  const shown = 'leader' in body ? body['leader'] : body['current_leader']
  const leader = shown as { node_id: string; term: number } | null | undefined
  const ok = status === 200 && body['is_leader'] !== false
  return { ok, leader: leader ? { node: leader.node_id, term: leader.term } : leader }
}
