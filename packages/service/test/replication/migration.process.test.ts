/** Clients and watchers of three replicas, while the active one is replaced and connections are cut repeatedly. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ServiceError } from '../../src/common/errors.ts'
import { isAfter, textOf, type Position } from '../../src/storage/position.ts'
import type { GroupChange } from '../../src/groups/port.ts'
import { claimOf, here, openThree, type Replica } from './test-cluster.ts'

const groups = ['a', 'b', 'c', 'd', 'e']
const longMs = 6_000

interface Grant {
  readonly groupId: string
  readonly term: number
  readonly nodeId: string
  readonly askedAtMs: number
  readonly knownAtMs: number
}

const some = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)] as T

/** Campaigns, renews, and resigns, each through any replica. */
async function live(nodeId: string, replicas: readonly Replica[], grants: Grant[], untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    const groupId = some(groups)
    const askedAtMs = performance.now()
    try {
      const waitMs = Math.random() < 0.5 ? 300 : 0
      const won = await some(replicas).groups.campaign(claimOf(nodeId, { groupId, waitMs, ttlMs: 1_000 }), here)
      if (!won.granted || !won.lease) {
        await delay(10)
        continue
      }
      const { term } = won.lease
      grants.push({ groupId, term, nodeId, askedAtMs, knownAtMs: performance.now() })
      for (let turn = 0; turn < 3; turn++) {
        await delay(5)
        await some(replicas).groups.renew({ groupId, nodeId, term, extendByMs: 1_000 })
      }
      await some(replicas).groups.resign({ groupId, nodeId, term })
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'BACKEND_UNAVAILABLE') throw error
      await delay(20)
    }
  }
}

/**
 * Records violations in the changes of a replica: each term of a group must begin and end once, unless a break named
 * the group.
 */
function judge({ groups: told, name }: Replica, wrong: string[], all: Map<string, string>) {
  const last = new Map<string, { readonly term: number; readonly isOver: boolean }>()
  const excused = new Set<string>()
  let position: Position | undefined
  let breaks = 0
  let changes = 0
  told.listen({
    onChange(change: GroupChange & { position: Position }) {
      changes += 1
      const { groupId, type, lease } = change
      const text = `${type} ${groupId} ${lease.term}`
      const at = textOf(change.position)
      if (position && !isAfter(change.position, position)) wrong.push(`${name}: ${text} is out of order`)
      if ((all.get(at) ?? text) !== text) wrong.push(`${name}: ${text} is ${all.get(at)} elsewhere`)
      all.set(at, text)
      position = change.position
      const before = last.get(groupId)
      const begins = type === 'LEADER_CHANGED'
      const fits = begins ? !before || before.isOver : before?.term === lease.term && !before.isOver
      if (!fits && !excused.has(groupId) && before) wrong.push(`${name}: ${text} follows ${JSON.stringify(before)}`)
      excused.delete(groupId)
      last.set(groupId, { term: lease.term, isOver: !begins })
    },
    onGap(gap) {
      if (gap.changed?.size !== 0) breaks += 1
      position = gap.position
      for (const groupId of gap.changed ?? groups) excused.add(groupId)
    },
  })
  return { last, counts: () => ({ breaks, changes }) }
}

test(
  'each term is granted once, and every replica emits each change once or reports a gap, whichever replica is active',
  { timeout: 60_000 },
  async () => {
    const { cluster } = await openThree()
    const { replicas } = cluster
    const wrong: string[] = []
    const all = new Map<string, string>()
    const told = replicas.map((replica) => judge(replica, wrong, all))
    const grants: Grant[] = []
    const untilMs = performance.now() + longMs
    const clients = Array.from({ length: 12 }, (_, at) => live(`node-${at}`, replicas, grants, untilMs))
    let active = replicas[0] as Replica
    while (performance.now() < untilMs - 1_000) {
      await delay(50 + Math.random() * 150)
      const { proxy } = active
      const fault = Math.random()
      if (fault < 0.3) proxy.reset()
      else if (fault < 0.6) {
        // The last changes of the active replica do not arrive.
        proxy.freezeExisting('to-client')
        await delay(Math.random() * 30)
      }
      if (fault < 0.2) continue
      if (fault > 0.8) cluster.depose()
      active = some(replicas)
      await cluster.elect(active)
    }
    await Promise.all(clients)
    expect(wrong).toEqual([])
    const byTerm = new Map(grants.map((grant) => [`${grant.groupId} ${grant.term}`, grant]))
    expect(byTerm.size).toBe(grants.length)
    for (const one of grants) {
      for (const other of grants) {
        if (one.groupId === other.groupId && one.knownAtMs < other.askedAtMs) expect(one.term).toBeLessThan(other.term)
      }
    }
    // In the end, all replicas have received the same changes.
    const newest = active.hub.feed.position
    await expect
      .poll(() => replicas.every(({ groups: { changes } }) => !isAfter(newest, changes.position)), { timeout: 10_000 })
      .toBe(true)
    expect(grants.length).toBeGreaterThan(30)
    expect(cluster.term).toBeGreaterThan(10)
    const counts = told.map(({ counts: of }) => of())
    expect(counts.some(({ breaks }) => breaks > 0)).toBe(true)
    for (const { changes } of counts) expect(changes).toBeGreaterThan(30)
  },
)
