import { fakeClock } from '@tenure/testing'
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

/** The check named by `by` must catch the mutant. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...ours,
    name: 'the active replica creates the attempt id instead of the follower',
    file: 'replication/peer-calls.ts',
    find: '(groups, [claim], signal) => groups.campaign(claim, signal)',
    replace: '(groups, [claim], signal) => groups.campaign({ ...claim, attempt: crypto.randomUUID() }, signal)',
    by: 'a repeated campaign gets the term that it won when its first answer was lost',
  },
  {
    ...ours,
    name: 'a replica answers whatever term the caller knows',
    file: 'replication/peer-session.ts',
    find: "if (activeReplica.kind === 'local' && term === activeReplica.term)",
    replace: "if (activeReplica.kind === 'local')",
    by: 'a replica that is no longer active does not answer a follower with a higher term and learns that term',
  },
  {
    ...ours,
    name: 'a follower accepts answers of a former active replica',
    file: 'replication/peer-client.ts',
    find: 'if (term < this.#options.terms.highest)',
    replace: 'if (term < 0)',
    by: 'a follower drops an answer from a replica that is no longer active',
  },
  {
    ...ours,
    name: 'a follower sends the term of the active replica instead of the highest known term',
    file: 'replication/term-announcements.ts',
    find: 'return this.#highest\n',
    replace: 'return this.#options.recordTerm()\n',
    by: 'a replica that is no longer active does not answer a follower with a higher term and learns that term',
  },
  {
    ...ours,
    name: 'a follower shows the state of groups without waiting for the feed',
    file: 'replication/cluster-groups.ts',
    find: 'await this.#reached(position)\n    return standings',
    replace: 'return standings',
    by: 'a follower does not show the state of groups before the changes that led to it',
  },
  {
    ...ours,
    name: 'a follower does not forward the abort of a call',
    file: 'replication/peer-client.ts',
    find: "if (this.#connection) return this.#connection.queue('cancels', String(id))",
    replace: 'if (this.#connection) return',
    by: 'a campaign through a follower stops waiting when its client disconnects',
  },
  {
    ...ours,
    name: 'the active replica continues the calls of a connection that has closed',
    file: 'replication/peer-session.ts',
    find: 'for (const controller of this.#inFlight.values()) controller.abort()',
    replace: '',
    by: 'campaigns through a closed follower stop waiting',
  },
  {
    ...ours,
    name: 'the wait of a campaign starts again with each retry',
    file: 'replication/cluster-groups.ts',
    find: 'return Math.max(0, untilMs - clock.monotonicMs())',
    replace: 'return claim.waitMs * 100',
    by: 'waiting campaigns move to the next active replica and keep their remaining wait time',
  },
  {
    ...ours,
    name: 'a resignation that may have taken effect is reported as refused',
    file: 'replication/cluster-groups.ts',
    find: 'if (mayBeDone && !standing.granted) throw',
    replace: 'if (mayBeDone && standing.granted === undefined) throw',
    by: 'a resignation whose answer was lost is not reported as refused when another node leads at the retry',
  },
  {
    ...ours,
    name: 'a batch of renewals that waited is answered even if the replica is no longer active',
    file: 'groups/local-groups.ts',
    find: 'return Promise.all(waiting).then(() => {\n      this.#driver.assert()',
    replace: 'return Promise.all(waiting).then(() => {',
    by: 'a batch of renewals that waits for a write is retried as a whole when its replica is no longer active',
  },
  {
    ...ours,
    name: 'every call is repeated, even if that could undo the work of others',
    file: 'replication/active-calls.ts',
    find: 'if (error instanceof PeerError) return call.isRepeatable || !error.mayBeDone',
    replace: 'if (error instanceof PeerError) return true',
    by: 'a call that may have taken effect and could undo the work of others is not repeated',
  },
]

test.each(mutations)('the checks of followers catch the mutant "$name"', async ({ by, ...mutation }) => {
  const from = (file: string) => `../../service/src/${file}`
  const mutant = await loadMutant<Modules>(mutation, {
    clusterGroups: from('replication/cluster-groups.ts'),
    linkServer: from('replication/peer-server.ts'),
    terms: from('replication/term-announcements.ts'),
    errors: from('common/errors.ts'),
    localGroups: from('groups/local-groups.ts'),
    hubs: from('watch/hub.ts'),
  })
  const check = clusterChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(mutant)).rejects.toThrow()
})

test('a call waits two seconds while no replica is active, and is then refused with a time to retry', async () => {
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

test('a waiting call is answered as soon as a replica is active, local or remote', async () => {
  const { cluster, active, next, follower } = await openThree()
  cluster.depose()
  const asked = [active, next, follower].map(async ({ groups }) => groups.leader('jobs'))
  await cluster.elect(next)
  for (const standing of await Promise.all(asked)) expect(standing).toMatchObject({ highestTerm: 0, granted: false })
})

test('a call that cannot reach the active replica is answered once another replica is active', async () => {
  const { cluster, active, next, follower } = await openThree()
  active.proxy.refuse()
  active.proxy.reset()
  const asked = Promise.resolve(follower.groups.leader('jobs'))
  await cluster.elect(next)
  expect(await asked).toMatchObject({ highestTerm: 0 })
})

test('calls that are made in one turn of the event loop share a few messages, and so do their answers', async () => {
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
