/** Tests of replicas whose followers keep a copy of the groups, in virtual time. */
import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import * as replicas from '../../src/replication/replica.ts'
import type { ReplicaEvent } from '../../src/replication/replica.ts'
import type { Loaded } from '../../src/storage/storage.ts'
import { FollowedStorage } from '../storage/followed-storage.ts'
import { campaign, groupsOf, open } from './scene.ts'
import { takeoverChecks, type ReplicaModule } from './takeover-checks.ts'

class CountedLoads extends FollowedStorage {
  loads = 0

  override load(): Promise<Loaded> {
    this.loads += 1
    return super.load()
  }
}

const held = { groupId: 'jobs', nodeId: 'a', term: 1 }

test('a follower that kept a copy takes over with everything that was written, and does not load', async () => {
  const storage = new CountedLoads()
  const { clock, start } = open(storage)
  const served: ReplicaEvent[] = []
  const one = start('one')
  await clock.advance(10)
  const two = start('two', { onEvent: (event) => void (event.type === 'serving' && served.push(event)) })
  await campaign(groupsOf(one), 'a')
  await clock.advance(2_000)
  await groupsOf(one).renew({ ...held, extendByMs: 20_000 })
  // This happens after the last poll, and just before the handover.
  await groupsOf(one).renew({ ...held, extendByMs: 30_000, checkpoint: 'page 7' })
  const { loads } = storage
  await one.stop()
  await clock.advance(10)
  const { lease } = await groupsOf(two).leader('jobs')
  expect(lease).toMatchObject({ nodeId: 'a', term: 1, checkpoint: 'page 7', ended: false })
  expect(lease?.remainingMs).toBeGreaterThan(29_900)
  expect(served).toMatchObject([{ fromCopy: true }])
  expect(storage.loads).toBe(loads)
})

test('a follower that kept a copy shows the successor of a resignation', async () => {
  const { clock, start } = open(new CountedLoads())
  const one = start('one')
  await clock.advance(10)
  const two = start('two')
  await campaign(groupsOf(one), 'a')
  await clock.advance(2_000)
  await groupsOf(one).resign({ ...held, successor: 'b' })
  await one.stop()
  await clock.advance(10)
  const { lease } = await groupsOf(two).leader('jobs')
  expect(lease).toMatchObject({ nodeId: 'a', term: 1, ended: true, successor: 'b' })
})

test('a lease from a copy expires after its duration, and the next node gets a higher term', async () => {
  const { clock, start } = open(new FollowedStorage())
  const one = start('one')
  await clock.advance(10)
  const two = start('two')
  await campaign(groupsOf(one), 'a')
  await clock.advance(4_000)
  await one.stop()
  await clock.advance(10)
  expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: false, lease: { nodeId: 'a', term: 1 } })
  await clock.advance(5_000)
  expect(await campaign(groupsOf(two), 'b')).toMatchObject({ granted: true, lease: { nodeId: 'b', term: 2 } })
})

test('a follower whose copy broke loads all groups when it takes over', async () => {
  const storage = new CountedLoads()
  const { clock, start } = open(storage)
  const one = start('one')
  await clock.advance(10)
  const two = start('two')
  await clock.advance(2_000)
  await campaign(groupsOf(one), 'a')
  storage.listedBatches = 0
  const { loads } = storage
  await one.stop()
  await clock.advance(10)
  expect(storage.loads).toBe(loads + 1)
  expect((await groupsOf(two).leader('jobs')).lease).toMatchObject({ nodeId: 'a', term: 1 })
})

test.each(takeoverChecks)('$name', ({ run }) => run(replicas))

const service = { package: 'service' } as const
const replica = { ...service, file: 'replication/replica.ts' }
const warmCopy = { ...service, file: 'replication/warm-copy.ts' }

/** The check named by `by` must catch the mutant. */
const mutants: readonly (Mutation & { readonly by: string })[] = [
  {
    ...replica,
    name: 'a replica that was elected takes over although it has no copy',
    find: 'return isFirst',
    replace: 'return isFirst && false',
    by: 'a replica that lost its lease leaves the takeover to a follower with a copy, and does not load first',
  },
  {
    ...replica,
    name: 'a replica leaves only one takeover to the others',
    find: 'const isFirst = term !== this.#leftAtTerm',
    replace: 'const isFirst = this.#leftAtTerm === undefined',
    by: 'a replica without a copy leaves each takeover to the others, as long as one of them takes over',
  },
  {
    ...replica,
    name: 'a replica without a copy never takes over',
    find: 'return isFirst',
    replace: 'return true',
    by: 'replicas of which none has a copy leave a takeover to each other only once',
  },
  {
    ...warmCopy,
    name: 'a replica that has just begun to load does not wait for the end of a short load',
    find: 'if (!this.isWarm && restMs > 0) await',
    replace: 'if (!this.isWarm && restMs < 0) await',
    by: 'a replica that has just started takes over at once when there are few groups',
  },
  {
    ...warmCopy,
    name: 'a replica that gave its copy to an active term stays ready',
    find: `this.#drop()
      this.#hasTried = false`,
    replace: 'this.#drop()',
    by: 'a replica that was active is not ready before it has read the groups again',
  },
]

test.each(mutants)('the checks find the mutant "$name"', async ({ by, ...mutation }) => {
  const { mutant } = await loadMutant<{ mutant: ReplicaModule }>(mutation, {
    mutant: '../../service/src/replication/replica.ts',
  })
  const check = takeoverChecks.find(({ name }) => name === by)
  await expect(check?.run(mutant)).rejects.toThrow(AssertionError)
})
