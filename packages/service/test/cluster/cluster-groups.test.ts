import { fakeClock } from 'tenure/testing'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { clusterChecks } from './cluster-checks.ts'
import { claimOf, here, modules, openPair, openThree, policy, type Modules } from './test-cluster.ts'

test.each(clusterChecks)('$name', ({ run }) => run(modules))

test('a page of large groups is the same on every replica', async () => {
  const { active, follower } = await openPair()
  const allowedNodes = Array.from({ length: 1_000 }, (_, index) => `node-${index}`.padEnd(128, 'x'))
  for (let at = 0; at < 70; at++) await active.groups.define(`g${at}`, { policy, allowedNodes }, { replace: false })
  const page = await active.groups.groups({ after: undefined, limit: 999 })
  expect(page.next).toBeDefined()
  expect(await follower.groups.groups({ after: undefined, limit: 999 })).toEqual(page)
})

const ours = { package: 'service' } as const

/** Each must be noticed by the check that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...ours,
    name: 'mint the attempt at the active replica',
    file: 'replication/peer-calls.ts',
    find: '(groups, [claim], signal) => groups.campaign(claim, signal)',
    replace: '(groups, [claim], signal) => groups.campaign({ ...claim, attempt: crypto.randomUUID() }, signal)',
    by: 'a campaign whose answer was lost gets the term that it won when it is sent again',
  },
  {
    ...ours,
    name: 'answer whatever term the caller knows',
    file: 'replication/peer-session.ts',
    find: "if (place.kind === 'here' && term === place.term)",
    replace: "if (place.kind === 'here')",
    by: 'a replica that is active no more answers nothing to who knows of a higher term, and hears of it',
  },
  {
    ...ours,
    name: 'believe the answers of a former active replica',
    file: 'replication/peer-client.ts',
    find: 'if (term < this.#options.terms.highest)',
    replace: 'if (term < 0)',
    by: 'what a replica answered that is active no more is dropped',
  },
  {
    ...ours,
    name: 'send the term of the place instead of the highest known',
    file: 'replication/highest-term.ts',
    find: "return place.kind === 'nowhere' ? this.#seen : Math.max(this.#seen, place.term)",
    replace: "return place.kind === 'nowhere' ? this.#seen : place.term",
    by: 'a replica that is active no more answers nothing to who knows of a higher term, and hears of it',
  },
  {
    ...ours,
    name: 'tell how groups stand without waiting for the feed',
    file: 'replication/cluster-groups.ts',
    find: 'await this.#reached(position)\n    return standings',
    replace: 'return standings',
    by: 'how groups stand is not told before the changes that it shows',
  },
  {
    ...ours,
    name: 'drop the abort',
    file: 'replication/peer-client.ts',
    find: "if (this.#connection) return this.#connection.queue('cancels', String(id))",
    replace: 'if (this.#connection) return',
    by: 'who has gone does not wait in line any more',
  },
  {
    ...ours,
    name: 'let calls go on after their connection',
    file: 'replication/peer-session.ts',
    find: 'for (const controller of this.#inFlight.values()) controller.abort()',
    replace: '',
    by: 'those who wait through a follower that is gone do not wait any more',
  },
  {
    ...ours,
    name: 'begin the wait again with each sending',
    file: 'replication/cluster-groups.ts',
    find: 'return Math.max(0, untilMs - clock.monotonicMs())',
    replace: 'return claim.waitMs * 100',
    by: 'campaigns that wait go on elsewhere, with what is left of their wait',
  },
  {
    ...ours,
    name: 'call a resignation refused that may have been done',
    file: 'replication/cluster-groups.ts',
    find: 'if (mayBeDone && !standing.granted) throw',
    replace: 'if (mayBeDone && standing.granted === undefined) throw',
    by: 'a resignation whose answer was lost is not called refused when another leads by the time it is sent again',
  },
  {
    ...ours,
    name: 'tell what became of many renewals that waited, active or not',
    file: 'groups/local-groups.ts',
    find: 'return Promise.all(waiting).then(() => {\n      this.#driver.assert()',
    replace: 'return Promise.all(waiting).then(() => {',
    by: 'many renewals that wait for a write go on elsewhere as a whole when their replica is active no more',
  },
  {
    ...ours,
    name: 'send everything again',
    file: 'replication/active-calls.ts',
    find: 'if (error instanceof PeerError) return call.isRepeatable || !error.mayBeDone',
    replace: 'if (error instanceof PeerError) return true',
    by: 'what may have been done and might undo what others did is not sent again',
  },
]

test.each(mutations)('a follower with the mistake "$name" is found out', async ({ by, ...mutation }) => {
  const from = (file: string) => `../../service/src/${file}`
  const mutant = await loadMutant<Modules>(mutation, {
    clusterGroups: from('replication/cluster-groups.ts'),
    linkServer: from('replication/peer-server.ts'),
    terms: from('replication/highest-term.ts'),
    errors: from('errors.ts'),
    localGroups: from('groups/local-groups.ts'),
    hubs: from('watch/hub.ts'),
  })
  const check = clusterChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(mutant)).rejects.toThrow()
})

test('while nobody is active a call is held for two seconds, and then refused with a time to come back', async () => {
  const clock = fakeClock()
  const { cluster, follower } = await openThree({ clock })
  cluster.depose()
  const outcome = follower.groups.campaign(claimOf('a'), here).catch((error: unknown) => error)
  let isOver = false
  void outcome.then(() => (isOver = true))
  await clock.advance(1_999)
  expect(isOver).toBe(false)
  await clock.advance(1)
  expect(await outcome).toMatchObject({ code: 'BACKEND_UNAVAILABLE', status: 503, details: { retry_after_ms: 1_000 } })
})

test('a call that is held is answered as soon as somebody is active, here or elsewhere', async () => {
  const { cluster, active, next, follower } = await openThree()
  cluster.depose()
  const asked = [active, next, follower].map(async ({ groups }) => groups.leader('jobs'))
  await cluster.elect(next)
  for (const standing of await Promise.all(asked)) expect(standing).toMatchObject({ highestTerm: 0, granted: false })
})

test('a place that cannot be reached is tried for two seconds, and another one is asked at once', async () => {
  const { cluster, active, next, follower } = await openThree()
  active.proxy.refuse()
  active.proxy.reset()
  const asked = Promise.resolve(follower.groups.leader('jobs'))
  await cluster.elect(next)
  expect(await asked).toMatchObject({ highestTerm: 0 })
})

test('verbs of one turn travel in one message, and so do their answers', async () => {
  const { active, follower } = await openThree()
  const ids = Array.from({ length: 200 }, (_, at) => `g-${at}`)
  await Promise.all(ids.map((groupId) => follower.groups.campaign(claimOf('a', { groupId }), here)))
  const { sent } = active.proxy
  const renewals = ids.map(async (groupId) =>
    follower.groups.renew({ groupId, nodeId: 'a', term: 1, extendByMs: 5_000 }),
  )
  for (const standing of await Promise.all(renewals)) expect(standing).toMatchObject({ granted: true })
  expect(active.proxy.sent - sent).toBeLessThan(5)
})
