/** What followers must do when places change and messages are lost, with real connections. */
import { expect, vi } from 'vitest'
import { isAfter } from '../../src/storage/position.ts'
import { read } from '../storage/data.ts'
import { claimOf, here, openThree, type Modules, type Replica } from './test-cluster.ts'

export interface ClusterCheck {
  readonly name: string
  run(modules: Modules): Promise<void>
}

const held = (nodeId: string, term = 1) => ({ groupId: 'jobs', nodeId, term })

/** Whether it has settled after a while in which everything else has run. */
async function settles(work: Promise<unknown>, ms = 100): Promise<boolean> {
  const over = new Promise<boolean>((resolve) => void setTimeout(() => resolve(false), ms))
  const settled = () => true
  return Promise.race([work.then(settled, settled), over])
}

/** What is under way to the followers of a replica never arrives, and their connections end. */
function lose({ proxy }: Replica): void {
  proxy.freezeExisting()
  proxy.set('pass')
  proxy.reset()
}

export const clusterChecks: readonly ClusterCheck[] = [
  {
    name: 'a campaign whose answer was lost gets the term that it won when it is sent again',
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
    name: 'a resignation whose answer was lost is not called refused when another leads by the time it is sent again',
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
    name: 'the same candidacy is granted by the next active replica too',
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
    name: 'a replica that is active no more answers nothing to who knows of a higher term, and hears of it',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      // It does not notice that another one was elected, nor does the follower's own election tell.
      await cluster.elect(next, [next])
      await next.groups.resign(held('a'))
      follower.terms.saw(cluster.term)
      const leader = Promise.resolve(follower.groups.leader('jobs'))
      await vi.waitFor(() => expect(active.higher).toEqual([2]), 3_000)
      expect(await settles(leader)).toBe(false)
      follower.places.set({ kind: 'elsewhere', term: 2, address: next.address, replica: next.name })
      expect(await leader).toMatchObject({ lease: { term: 1, ended: true } })
    },
  },
  {
    name: 'what a replica answered that is active no more is dropped',
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
      follower.terms.saw(cluster.term)
      active.proxy.set('pass', 'to-client')
      expect(await settles(leader, 50)).toBe(false)
      follower.places.set({ kind: 'elsewhere', term: 2, address: next.address, replica: next.name })
      expect(await leader).toMatchObject({ lease: { term: 1, ended: true } })
    },
  },
  {
    name: 'who asks for an earlier term is told that the replica is not active, and asks again for the present one',
    async run(modules) {
      const { cluster, active, follower } = await openThree({ modules })
      await follower.groups.campaign(claimOf('a'), here)
      // Elected again, at the same address: the follower's own election has not told of it yet.
      await cluster.elect(active, [active])
      expect(await follower.groups.leader('jobs')).toMatchObject({ lease: { term: 1, ended: false } })
      expect(follower.higher).toEqual([2])
    },
  },
  {
    name: 'how groups stand is not told before the changes that it shows',
    async run(modules) {
      let stream = () => {}
      const streaming = new Promise<void>((resolve) => (stream = resolve))
      const { active, follower } = await openThree({ modules, streaming })
      await follower.groups.campaign(claimOf('a'), here)
      const { position } = active.hub.feed
      expect(isAfter(position, follower.hub.feed.position)).toBe(true)
      const standings = follower.groups.leaders(['jobs'])
      expect(await settles(standings, 50)).toBe(false)
      // Others do not wait for that.
      expect(await follower.groups.leader('jobs')).toMatchObject({ lease: { term: 1 } })
      stream()
      expect(await standings).toMatchObject([{ lease: { term: 1 } }])
      expect(isAfter(position, follower.hub.feed.position)).toBe(false)
    },
  },
  {
    name: 'a cursor of another replica is good as soon as its changes have arrived',
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
    name: 'who has gone does not wait in line any more',
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
    name: 'those who wait through a follower that is gone do not wait any more',
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
    name: 'campaigns that wait go on elsewhere, with what is left of their wait',
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
    name: 'many renewals that wait for a write go on elsewhere as a whole when their replica is active no more',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      await Promise.all(['jobs', 'orders'].map((groupId) => follower.groups.campaign(claimOf('a', { groupId }), here)))
      let goOn = () => {}
      cluster.storage.gate = new Promise((resolve) => (goOn = resolve))
      // The second one needs no write, and is answered at once where the groups are.
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
    name: 'nobody passes on what was passed on',
    async run(modules) {
      const { cluster, active, next, follower } = await openThree({ modules })
      cluster.depose()
      const at = ({ address, name }: typeof next) => ({ kind: 'elsewhere', term: 7, address, replica: name }) as const
      next.places.set(at(follower))
      follower.places.set(at(next))
      const leader = Promise.resolve(follower.groups.leader('jobs'))
      expect(await settles(leader, 150)).toBe(false)
      // Asked a few times, once in a while, beside what each of them asks for itself.
      expect(next.proxy.sent).toBeLessThan(20)
      await cluster.elect(active)
      follower.terms.saw(cluster.term)
      await settles(leader, 1)
      void leader.catch(() => {})
    },
  },
  {
    name: 'what may have been done and might undo what others did is not sent again',
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
