/** Tests of how revocations reach every replica, whatever happens to the connections between them. */
import { expect, onTestFinished, test } from 'vitest'
import { unauthenticated } from '../../src/auth/access.ts'
import { Revocations, revocationGroupId } from '../../src/auth/revocations.ts'
import { systemClock } from '../../src/common/clock.ts'
import { openPair, openThree, policy, TestCluster, type Replica } from './test-cluster.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'

const bearerOf = (tokenId: string) => ({ ...unauthenticated, revocation: revocationGroupId(tokenId) })

function follow({ groups: state, replicas }: Replica) {
  const ended: number[] = []
  const revocations = new Revocations({ state, replicas, clock: systemClock, onRevoked: () => void ended.push(1) })
  onTestFinished(() => revocations.close())
  return { revocations, ended, started: revocations.start() }
}

/** The revocations that each replica knows. */
async function followAll(...all: readonly Replica[]) {
  const followed = all.map(follow)
  await Promise.all(followed.map(({ started }) => started))
  return followed.map(({ revocations }) => revocations)
}

test('a revocation is answered only after a slow follower has received it', async () => {
  const { active, follower } = await openPair()
  const [first, second] = await followAll(active, follower)
  await expect.poll(async () => (await active.replicas.view()).followers.length).toBe(1)
  for (const tokenId of ['one', 'two', 'three']) {
    active.proxy.set({ delayMs: 150 }, 'to-client')
    await first?.revoke(tokenId)
    expect(second?.has(bearerOf(tokenId))).toBe(true)
    active.proxy.set('pass')
  }
})

test('a follower that does not confirm a revocation is reported, and the call may be repeated', async () => {
  const { active, follower } = await openPair()
  const [first, second] = await followAll(active, follower)
  await expect.poll(async () => (await active.replicas.view()).followers.length).toBe(1)
  active.proxy.set('hold', 'to-client')
  const refusal = { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining('has not confirmed') as string }
  await expect(first?.revoke('one')).rejects.toMatchObject(refusal)
  expect([first?.has(bearerOf('one')), second?.has(bearerOf('one'))]).toEqual([true, false])
  active.proxy.set('pass')
  await first?.revoke('one')
  expect(second?.has(bearerOf('one'))).toBe(true)
})

test('a follower that was disconnected receives the missed revocations after it reconnects', async () => {
  const { active, follower } = await openPair()
  const [first, second] = await followAll(active, follower)
  active.proxy.refuse()
  active.proxy.reset()
  await expect.poll(async () => (await active.replicas.view()).followers.length).toBe(0)
  await first?.revoke('one')
  expect(second?.has(bearerOf('one'))).toBe(false)
  await active.proxy.accept()
  await expect.poll(() => second?.has(bearerOf('one')), { timeout: 4_000 }).toBe(true)
})

test('a follower receives missed revocations from a new active replica that has kept no changes', async () => {
  const { cluster, active, follower } = await openPair()
  const [known] = await followAll(follower)
  active.proxy.refuse()
  active.proxy.reset()
  await expect.poll(async () => (await active.replicas.view()).followers.length).toBe(0)
  // Define it without the lease that notifies the others, because the end of that lease would be another change.
  await active.local?.define(revocationGroupId('one'), { policy, allowedNodes: undefined }, { replace: true })
  const late = await cluster.add()
  cluster.depose()
  await cluster.elect(late)
  // This is earlier than the follower would poll by itself.
  await expect.poll(() => known?.has(bearerOf('one')), { timeout: 3_000 }).toBe(true)
})

test('every replica knows the revocations after a failover and can revoke further tokens', async () => {
  const { cluster, active, next, follower } = await openThree()
  const all = await followAll(active, next, follower)
  await all[2]?.revoke('by a follower')
  cluster.depose()
  await cluster.elect(next)
  await all[0]?.revoke('by the former one')
  for (const tokenId of ['by a follower', 'by the former one']) {
    for (const revocations of all) {
      await expect.poll(() => revocations.has(bearerOf(tokenId))).toBe(true)
      expect(() => revocations.check(bearerOf(tokenId))).toThrow('The credential has been revoked.')
    }
  }
  for (const revocations of all) expect(revocations.check(bearerOf('another'))).toBeUndefined()
})

test('a replica that does not know the revocations makes callers with tokens wait and then refuses them', async () => {
  const cluster = new TestCluster(new MemoryStorage(), {})
  const one = await cluster.add()
  const { revocations } = follow(one)
  const refused = { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining('are not known') as string }
  await expect(revocations.check(bearerOf('any'))).rejects.toMatchObject(refused)
  // Callers without a token are not affected.
  expect(revocations.check(unauthenticated)).toBeUndefined()
  const held = revocations.check(bearerOf('any'))
  await cluster.elect(one)
  await expect(held).resolves.toBeUndefined()
  await expect.poll(() => revocations.check(bearerOf('any'))).toBeUndefined()
})

test('a replica that starts later loads more than a thousand earlier revocations', async () => {
  const { cluster, active } = await openPair()
  const ids = Array.from({ length: 1_203 }, (_, index) => `token ${index}`)
  const definition = { policy, allowedNodes: undefined }
  const defined = ids.map((id) => active.groups.define(revocationGroupId(id), definition, { replace: true }))
  await Promise.all(defined)
  const late = await cluster.add()
  late.places.set({ kind: 'remote', term: cluster.term, address: active.address, replica: active.name })
  const { revocations, started } = follow(late)
  await started
  expect(revocations.count).toBe(1_203)
  expect(ids.every((id) => revocations.has(bearerOf(id)))).toBe(true)
  const { groups, next } = await late.groups.groups({ after: undefined, limit: 10 })
  expect({ groups, next }).toEqual({ groups: [], next: undefined })
})
