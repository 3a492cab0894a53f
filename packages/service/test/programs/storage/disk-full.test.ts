import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fakeClock } from 'tenure/testing'
import { expect, onTestFinished, test } from 'vitest'
import { mayMount, smallDisk } from '../../../../../test/servers/small-disk.ts'
import { openEmbedded } from '../../../src/embedded.ts'
import type { CampaignClaim, GroupStanding } from '../../../src/groups/groups.ts'
import { describeWithRight } from '../../../../../test/servers/suite.ts'
import { ServiceProcess } from '../../disk/service-process.ts'
import { readFormat1, writeFormat1 } from '../../storage/format-1.ts'

const { signal } = new AbortController()
const unavailable = { code: 'BACKEND_UNAVAILABLE' }

async function open(directory: string) {
  const clock = fakeClock()
  const { groups: state } = await openEmbedded({
    directory: join(directory, 'data'),
    clock,
    policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
    implicitGroups: true,
    maxGroups: 10_000,
    maxMembersPerGroup: 3,
    memberTtlMs: 60_000,
    afterRestore: false,
  })
  state.serve()
  onTestFinished(() => state.close())
  const campaign = (nodeId: string, change: Partial<CampaignClaim> = {}): Promise<GroupStanding> => {
    const claim = {
      groupId: 'jobs',
      nodeId,
      attempt: nodeId,
      attemptIsOnce: false,
      ttlMs: 5_000,
      metadata: '{}',
      waitMs: 0,
    }
    return state.campaign({ ...claim, ...change }, signal)
  }
  return { clock, state, campaign }
}

/** Uses up what the file has kept for a full disk. */
async function fillUp(campaign: Awaited<ReturnType<typeof open>>['campaign']): Promise<void> {
  const metadata = JSON.stringify({ filler: 'x'.repeat(3_000) })
  while (await campaign('x', { groupId: `group-${Math.random()}`, metadata }).catch(() => undefined));
  while (await campaign('x', { groupId: `group-${Math.random()}` }).catch(() => undefined));
}

describeWithRight(mayMount ? undefined : 'this user may not mount one', 'on a file system that is full', () => {
  test('no term is granted, and none is used twice when there is room again', async () => {
    const disk = smallDisk()
    const { state, campaign } = await open(disk.directory)
    await campaign('a')
    disk.fill()
    // Some writes find room in pages that are free within the file.
    const failed = new Map<string, number>()
    for (let index = 0; index < 150; index++) {
      const groupId = `group-${index}`
      await campaign('a', { groupId, metadata: JSON.stringify({ filler: 'x'.repeat(3_000) }) }).catch(() =>
        failed.set(groupId, 1),
      )
    }
    expect(failed.size).toBeGreaterThan(0)
    expect(await state.renew({ groupId: 'jobs', nodeId: 'a', term: 1, extendByMs: 5_000 })).toMatchObject({
      granted: true,
    })
    disk.free()
    await state.check()
    for (const groupId of failed.keys()) expect(await campaign('b', { groupId })).toMatchObject({ lease: { term: 2 } })
    await state.close()
    const again = await open(disk.directory)
    for (const groupId of failed.keys()) {
      expect(await again.state.leader(groupId)).toMatchObject({ lease: { nodeId: 'b', term: 2 } })
    }
  })

  test('fills up and recovers many times, and what was answered is there', async () => {
    const disk = smallDisk()
    const { state, campaign } = await open(disk.directory)
    const granted: string[] = []
    for (let round = 0; round < 5; round++) {
      disk.fill()
      await expect(writeUntilFull(round)).rejects.toMatchObject(unavailable)
      disk.free()
      await state.check()
    }
    async function writeUntilFull(round: number): Promise<never> {
      for (let index = 0; ; index++) {
        const groupId = `group-${round}-${index}`
        await campaign('a', { groupId, metadata: JSON.stringify({ filler: 'x'.repeat(1_000) }) })
        granted.push(groupId)
      }
    }
    await state.close()
    const again = await open(disk.directory)
    for (const groupId of granted) expect(await again.state.leader(groupId)).toMatchObject({ lease: { term: 1 } })
  })

  test('nobody is told that a term is over, and those in line go on waiting', async () => {
    const disk = smallDisk()
    const { clock, state, campaign } = await open(disk.directory)
    await campaign('a')
    const waiting = campaign('b', { waitMs: 60_000 })
    await clock.advance(1)
    disk.fill()
    await fillUp(campaign)
    // The directory is proven once a second, on a disk that knows nothing of this clock.
    for (let second = 0; second < 5; second++) {
      await clock.advance(1_000)
      await state.check().catch(() => {})
    }
    await expect(state.leader('jobs')).rejects.toMatchObject(unavailable)
    disk.free()
    // It is tried again after a second.
    await clock.advance(1_000)
    expect(await waiting).toMatchObject({ granted: true, lease: { nodeId: 'b' } })
  })

  // A campaign that went on with a group that had been forgotten would be granted the same term as the next one.
  test('of two campaigns in a group that could not be defined one is granted', async () => {
    const disk = smallDisk()
    const { state, campaign } = await open(disk.directory)
    disk.fill()
    await fillUp(campaign)
    const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }
    const defined = state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    const early = campaign('a')
    const late = defined.catch(() => {
      disk.free()
      return campaign('b')
    })
    const verdicts = await Promise.all([early, late])
    expect(verdicts.map((verdict) => (verdict as GroupStanding).granted).filter(Boolean)).toHaveLength(1)
  })

  test('what LMDB would say of it goes nowhere but to the log', async () => {
    const disk = smallDisk()
    const service = await ServiceProcess.start({ directory: join(disk.directory, 'data') })
    disk.fill()
    const body = { node_id: 'a', lease_ttl_ms: 60_000, metadata: { filler: 'x'.repeat(1_000) } }
    for (let failures = 0; failures < 20;) {
      const answer = await service.ask('POST', `/v1/groups/${Math.random()}/campaign`, body)
      if (answer?.status === 503) failures += 1
    }
    expect(await service.stop()).toBe('')
  })

  test('a service that has no room for its first data says so', async () => {
    const disk = smallDisk()
    disk.fill()
    const directory = join(disk.directory, 'data')
    await expect(ServiceProcess.start({ directory })).rejects.toThrow(/ENOSPC|No space left/)
  })

  test('data of the format before are served as they are, and upgraded with the first write that finds room', async () => {
    const disk = smallDisk()
    const directory = join(disk.directory, 'data')
    const record = { term: 1, node: 'a', attempt: 'x', ttl: 60_000, at: 1 }
    await writeFormat1(directory, [{ id: 'jobs', record }])
    disk.fill()
    const service = await ServiceProcess.start({ directory })
    const renewal = { node_id: 'a', term: 1, extend_by_ms: 60_000 }
    expect(await service.ask('POST', '/v1/groups/jobs/renew', renewal)).toMatchObject({ status: 200 })
    expect(await readFormat1(directory)).toMatchObject({ format: 1 })
    disk.free()
    expect(await service.ask('POST', '/v1/groups/jobs/resign', { node_id: 'a', term: 1 })).toMatchObject({
      status: 200,
    })
    await service.kill()
    await expect(readFormat1(directory)).rejects.toThrow('it has format 2')
    // Where it is has been noted too.
    const copy = join(disk.directory, 'copy')
    cpSync(directory, copy, { recursive: true })
    await expect(ServiceProcess.start({ directory: copy })).rejects.toThrow(/it is a copy/)
    const again = await ServiceProcess.start({ directory })
    expect(await again.ask('GET', '/v1/groups/jobs/leader')).toMatchObject({ body: { leader: null, highest_term: 1 } })
  })

  test('a service starts on what it has, and known leaders go on', async () => {
    const disk = smallDisk()
    const directory = join(disk.directory, 'data')
    const before = await ServiceProcess.start({ directory })
    await before.ask('POST', '/v1/groups/jobs/campaign', { node_id: 'a', lease_ttl_ms: 60_000 })
    await before.kill()
    disk.fill()
    const after = await ServiceProcess.start({ directory })
    const renewal = { node_id: 'a', term: 1, extend_by_ms: 60_000 }
    expect(await after.ask('POST', '/v1/groups/jobs/renew', renewal)).toMatchObject({ status: 200 })
    while (
      (await after.ask('POST', `/v1/groups/${Math.random()}/campaign`, { node_id: 'a', lease_ttl_ms: 60_000 }))
        ?.status !== 503
    );
    await expect.poll(() => after.ask('GET', '/readyz'), { timeout: 10_000 }).toMatchObject({ status: 503 })
    disk.free()
    await expect.poll(() => after.ask('GET', '/readyz'), { timeout: 10_000 }).toMatchObject({ status: 200 })
  })
})
