/** Guarantees of followers when the active replica changes and messages are lost, with real connections. */
import { expect, vi } from 'vitest'
import { isAfter } from '../../src/storage/position.ts'
import { read } from '../storage/data-directories.ts'
import { claimOf, here, openThree, type Modules, type Replica } from './test-cluster.ts'

export interface ClusterCheck {
  readonly name: string
  run(modules: Modules): Promise<void>
}

const held = (nodeId: string, term = 1) => ({ groupId: 'jobs', nodeId, term })

/** Whether the work settles within `ms`, while everything else keeps running. */
async function settles(work: Promise<unknown>, ms = 100): Promise<boolean> {
  const over = new Promise<boolean>((resolve) => void setTimeout(() => resolve(false), ms))
  const settled = () => true
  return Promise.race([work.then(settled, settled), over])
}

/** Drops everything in flight to the followers of a replica and resets their connections. */
function lose({ proxy }: Replica): void {
  proxy.freezeExisting()
  proxy.set('pass')
  proxy.reset()
}

export const clusterChecks: readonly ClusterCheck[] = [
  {
    name: 'a repeated campaign gets the term that it won when its first answer was lost',
    async run(modules) {
      const { cluster, active, follower } = await openThree({ modules })
      await follower.groups.leader('jobs')
      active.proxy.set('hold', 'to-client')
      const campaign = follower.groups.campaign(claimOf('a'), here)
      await vi.waitFor(async () => expect(await read(cluster.storage)).toHaveLength(1), 10_000)
      lose(active)
      expect(await campaign).toMatchObject({ granted: true, highestTerm: 1, lease: { nodeId: 'a', term: 1 } })
    },
  },
  {
    name: 'a resignation whose answer was lost is not reported as refused when another node leads at the retry',
    async run(modules) {
      const { active, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      active.proxy.set('hold', 'to-client')
      const resignation = follower.groups.resign(held('a')).catch((error: unknown) => error)
      await vi.waitFor(
        async () => expect(await active.groups.leader('jobs')).toMatchObject({ lease: { ended: true } }),
        10_000,
      )
      expect(await active.groups.campaign(claimOf('b'), here)).toMatchObject({ granted: true, highestTerm: 2 })
      lose(active)
      expect(await resignation).toMatchObject({ code: 'BACKEND_UNAVAILABLE', details: { retry_after_ms: 1_000 } })
      expect(await follower.groups.resign(held('a'))).toMatchObject({ granted: false, highestTerm: 2 })
    },
  },
  {
    name: 'a repeated candidacy is granted its term by the next active replica',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await follower.groups.leader('jobs')
      active.proxy.set('hold', 'to-client')
      const campaign = follower.groups.campaign(claimOf('a'), here)
      await vi.waitFor(async () => expect(await read(cluster.storage)).toHaveLength(1), 10_000)
      await cluster.elect(next)
      expect(await campaign).toMatchObject({ granted: true, highestTerm: 1, lease: { nodeId: 'a', term: 1 } })
    },
  },
  {
    name: 'a replica that is no longer active does not answer a follower with a higher term and learns that term',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      // Neither the former active replica nor the follower's own election notices that another replica was elected.
      await cluster.elect(next, [next])
      await next.groups.resign(held('a'))
      follower.terms.observe(cluster.term)
      const leader = Promise.resolve(follower.groups.leader('jobs'))
      await vi.waitFor(() => expect(active.higher).toEqual([2]), 3_000)
      expect(await settles(leader)).toBe(false)
      follower.places.set({ kind: 'remote', term: 2, address: next.address, replica: next.name })
      expect(await leader).toMatchObject({ lease: { term: 1, ended: true } })
    },
  },
  {
    name: 'a follower drops an answer from a replica that is no longer active',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      active.proxy.set('hold', 'to-client')
      const sent = active.proxy.sent
      const leader = Promise.resolve(follower.groups.leader('jobs'))
      await vi.waitFor(() => expect(active.proxy.sent).toBeGreaterThan(sent), 10_000)
      await vi.waitFor(() => expect(active.proxy.queuedBytes).toBeGreaterThan(0), 10_000)
      await cluster.elect(next, [next])
      await next.groups.resign(held('a'))
      follower.terms.observe(cluster.term)
      active.proxy.set('pass', 'to-client')
      expect(await settles(leader, 50)).toBe(false)
      follower.places.set({ kind: 'remote', term: 2, address: next.address, replica: next.name })
      expect(await leader).toMatchObject({ lease: { term: 1, ended: true } })
    },
  },
  {
    name: 'a call for an earlier term is refused and is repeated for the current term',
    async run(modules) {
      const { cluster, active, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      // The replica was elected again at the same address. The follower's own election has not reported that yet.
      await cluster.elect(active, [active])
      expect(await follower.groups.leader('jobs')).toMatchObject({ lease: { term: 1, ended: false } })
      expect(follower.higher).toEqual([2])
    },
  },
  {
    name: 'a follower does not show the state of groups before the changes that led to it',
    async run(modules) {
      let stream = () => {}
      const streaming = new Promise<void>((resolve) => (stream = resolve))
      const { active, follower } = await openThree({ modules, streaming })
      await follower.groups.campaign(claimOf('a'), here)
      const { position } = active.hub.feed
      expect(isAfter(position, follower.hub.feed.position)).toBe(true)
      const standings = follower.groups.leaders(['jobs'])
      expect(await settles(standings, 50)).toBe(false)
      // Other calls do not wait for the stream.
      expect(await follower.groups.leader('jobs')).toMatchObject({ lease: { term: 1 } })
      stream()
      expect(await standings).toMatchObject([{ lease: { term: 1 } }])
      expect(isAfter(position, follower.hub.feed.position)).toBe(false)
    },
  },
  {
    name: 'a follower accepts a cursor from another replica once the changes before it have arrived',
    async run(modules) {
      let stream = () => {}
      const streaming = new Promise<void>((resolve) => (stream = resolve))
      const { active, follower } = await openThree({ modules, streaming })
      await follower.groups.campaign(claimOf('a'), here)
      const { position } = active.hub.feed
      const reaches = follower.groups.reaches(position)
      expect(await settles(reaches, 50)).toBe(false)
      expect(await follower.groups.reaches({ ...position, seq: position.seq + 1 })).toBe(false)
      stream()
      expect(await reaches).toBe(true)
    },
  },
  {
    name: 'a campaign through a follower stops waiting when its client disconnects',
    async run(modules) {
      const { follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      const caller = new AbortController()
      const waiting = follower.groups.campaign(claimOf('b', { waitMs: 60_000 }), caller.signal)
      expect(await settles(waiting, 30)).toBe(false)
      caller.abort()
      expect(await settles(waiting)).toBe(true)
      expect(await waiting).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
      await follower.groups.resign(held('a'))
      expect(await follower.groups.leader('jobs')).toMatchObject({ highestTerm: 1 })
    },
  },
  {
    name: 'campaigns through a closed follower stop waiting',
    async run(modules) {
      const { active, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      const waiting = follower.groups.campaign(claimOf('b', { waitMs: 60_000 }), here)
      expect(await settles(waiting, 30)).toBe(false)
      await follower.groups.close()
      await expect(waiting).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
      const behind = active.groups.campaign(claimOf('c', { waitMs: 60_000 }), here)
      expect(await settles(behind, 50)).toBe(false)
      await active.groups.resign(held('a'))
      expect(await settles(behind)).toBe(true)
      expect(await behind).toMatchObject({ granted: true, lease: { nodeId: 'c', term: 2 } })
    },
  },
  {
    name: 'waiting campaigns move to the next active replica and keep their remaining wait time',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await active.groups.campaign(claimOf('a', { ttlMs: 60_000 }), here)
      const waiting = [follower, active, next].map(({ groups, name }) =>
        groups.campaign(claimOf(name, { waitMs: 60_000, ttlMs: 1_000 }), here),
      )
      const brief = follower.groups.campaign(claimOf('brief', { waitMs: 120 }), here)
      expect(await settles(Promise.race(waiting), 30)).toBe(false)
      await cluster.elect(next)
      expect(await settles(brief, 1_000)).toBe(true)
      expect(await brief).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
      expect(await settles(Promise.race(waiting), 30)).toBe(false)
      await follower.groups.resign(held('a'))
      const first = await Promise.race(waiting)
      expect(first).toMatchObject({ granted: true, lease: { term: 2 } })
    },
  },
  {
    name: 'a batch of renewals that waits for a write is retried as a whole when its replica is no longer active',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await Promise.all(['jobs', 'orders'].map((groupId) => follower.groups.campaign(claimOf('a', { groupId }), here)))
      let goOn = () => {}
      cluster.storage.gate = new Promise((resolve) => (goOn = resolve))
      // The second renewal needs no write, so the active replica answers it at once.
      const renewals = [
        ['jobs', 1, 9_000],
        ['orders', 1, 5_000],
      ] as const
      const renewing = Promise.all([active, follower].map(async ({ groups }) => groups.renewMany('a', renewals)))
      await vi.waitFor(() => expect(cluster.storage.handedIn.at(-1)).toEqual(['jobs']), 10_000)
      cluster.depose()
      goOn()
      expect(await settles(renewing)).toBe(false)
      await cluster.elect(next)
      const extended = [expect.any(Number), expect.any(Number)]
      expect(await renewing).toEqual([extended, extended])
    },
  },
  {
    name: 'a forwarded call is not forwarded again',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      cluster.depose()
      const at = ({ address, name }: typeof next) => ({ kind: 'remote', term: 7, address, replica: name }) as const
      next.places.set(at(follower))
      follower.places.set(at(next))
      const leader = Promise.resolve(follower.groups.leader('jobs'))
      expect(await settles(leader, 150)).toBe(false)
      // Each replica is also asked a few times, at intervals, in addition to its own calls.
      expect(next.proxy.sent).toBeLessThan(20)
      await cluster.elect(active)
      follower.terms.observe(cluster.term)
      await settles(leader, 1)
      void leader.catch(() => {})
    },
  },
  {
    name: 'a call that may have taken effect and could undo the work of others is not repeated',
    async run(modules) {
      const { active, follower } = await openThree({ modules })
      const definition = { policy: { minTtlMs: 1_000, maxTtlMs: 2_000 }, allowedNodes: undefined }
      await follower.groups.define('jobs', definition, { replace: true })
      for (const ask of [
        () => follower.groups.define('jobs', { ...definition, allowedNodes: ['a'] }, { replace: true }),
        () => follower.groups.remove('jobs', { force: true }),
      ]) {
        await follower.groups.leader('jobs')
        active.proxy.set('hold', 'to-client')
        const { sent } = active.proxy
        const asked = ask()
        asked.catch(() => {})
        await vi.waitFor(() => expect(active.proxy.sent).toBeGreaterThan(sent), 10_000)
        await vi.waitFor(() => expect(active.proxy.queuedBytes).toBeGreaterThan(0), 10_000)
        lose(active)
        await expect(asked).rejects.toMatchObject({
          code: 'BACKEND_UNAVAILABLE',
          message: expect.stringContaining('outcome of this request is unknown') as string,
          details: { retry_after_ms: 1_000 },
        })
      }
    },
  },
]
