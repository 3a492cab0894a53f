import { join } from 'node:path'
import { fakeClock } from '@tenure/testing'
import { expect, onTestFinished, test } from 'vitest'
import { mayMount, smallDisk } from '../../../../test/servers/small-disk.ts'
import { openEmbedded } from '../../src/embedded.ts'
import type { CampaignClaim, GroupState } from '../../src/groups/port.ts'
import { describeWithRight } from '../../../../test/servers/suite.ts'
import { ServiceProcess } from '../disk/service-process.ts'

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
  })
  state.serve()
  onTestFinished(() => state.close())
  const campaign = (nodeId: string, change: Partial<CampaignClaim> = {}): Promise<GroupState> => {
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

/** Uses up the space that the file has reserved for a full disk. */
async function fillUp(campaign: Awaited<ReturnType<typeof open>>['campaign']): Promise<void> {
  const metadata = JSON.stringify({ filler: 'x'.repeat(3_000) })
  while (await campaign('x', { groupId: `group-${Math.random()}`, metadata }).catch(() => undefined));
  while (await campaign('x', { groupId: `group-${Math.random()}` }).catch(() => undefined));
}

describeWithRight(mayMount ? undefined : 'this user may not mount one', 'a full file system', () => {
  test('a campaign that failed on a full disk uses up its term, so the next campaign gets a higher term', async () => {
    const disk = smallDisk()
    const { state, campaign } = await open(disk.directory)
    await campaign('a')
    disk.fill()
    // Some writes find room in free pages within the file.
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

  test('the service survives a full disk repeatedly and keeps everything that was answered', async () => {
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

  test('the end of a term is not reported on a full disk, and waiting campaigns keep waiting', async () => {
    const disk = smallDisk()
    const { clock, state, campaign } = await open(disk.directory)
    await campaign('a')
    const waiting = campaign('b', { waitMs: 60_000 })
    await clock.advance(1)
    disk.fill()
    await fillUp(campaign)
    // The directory must be proven once a second, on a real disk that does not use this clock.
    for (let second = 0; second < 5; second++) {
      await clock.advance(1_000)
      await state.check().catch(() => {})
    }
    await expect(state.leader('jobs')).rejects.toMatchObject(unavailable)
    disk.free()
    // The write is retried after a second.
    await clock.advance(1_000)
    expect(await waiting).toMatchObject({ granted: true, lease: { nodeId: 'b' } })
  })

  // A campaign that continued with a forgotten group would be granted the same term as the next one.
  test('only one of two campaigns is granted in a group that could not be defined', async () => {
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
    expect(verdicts.map((verdict) => (verdict as GroupState).granted).filter(Boolean)).toHaveLength(1)
  })

  test('LMDB prints nothing to standard error when the disk is full', async () => {
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

  test('a service without room for its first data fails to start with ENOSPC', async () => {
    const disk = smallDisk()
    disk.fill()
    const directory = join(disk.directory, 'data')
    await expect(ServiceProcess.start({ directory })).rejects.toThrow(/ENOSPC|No space left/)
  })

  test('a service starts on a full disk, and leaders can renew their leases', async () => {
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
