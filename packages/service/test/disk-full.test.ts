import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fakeClock } from 'tenure/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EmbeddedState } from '../src/embedded/embedded-state.ts'
import type { CampaignClaim, Verdict } from '../src/state.ts'
import { ServiceProcess } from './disk/service-process.ts'

const { signal } = new AbortController()
const unavailable = { code: 'BACKEND_UNAVAILABLE' }

/** A file system of two megabytes, or why there is none. */
function mountSmall(): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-full-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', directory], { stdio: 'ignore' })
  } catch {
    rmSync(directory, { recursive: true })
    return undefined
  }
  return directory
}

const mayMount = (() => {
  const directory = process.platform === 'linux' ? mountSmall() : undefined
  if (directory === undefined) return false
  unmount(directory)
  return true
})()

function unmount(directory: string): void {
  execFileSync('umount', ['--lazy', directory])
  rmSync(directory, { recursive: true })
}

function smallDisk(): { directory: string; fill(): void; free(): void } {
  const directory = mountSmall()
  if (directory === undefined) throw new Error('cannot mount')
  onTestFinished(() => unmount(directory))
  const filler = join(directory, 'filler')
  return {
    directory,
    fill() {
      const file = openSync(filler, 'w')
      try {
        while (statfsSync(directory).bfree > 0) writeSync(file, Buffer.alloc(4_096))
      } finally {
        closeSync(file)
      }
    },
    free: () => unlinkSync(filler),
  }
}

async function open(directory: string) {
  const clock = fakeClock()
  const state = await EmbeddedState.open({
    directory: join(directory, 'data'),
    clock,
    policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
    implicitGroups: true,
    maxGroups: 10_000,
    maxMembersPerGroup: 3,
    memberTtlMs: 60_000,
    afterRestore: false,
  })
  onTestFinished(() => state.close())
  const campaign = (nodeId: string, change: Partial<CampaignClaim> = {}): Promise<Verdict> => {
    const claim = {
      groupId: 'jobs',
      nodeId,
      attempt: nodeId,
      attemptIsOnce: false,
      ttlMs: 5_000,
      metadata: {},
      waitMs: 0,
    }
    return state.campaign({ ...claim, ...change }, signal)
  }
  return { clock, state, campaign }
}

describe.skipIf(!mayMount)('on a file system that is full (needs the right to mount one)', { timeout: 60_000 }, () => {
  test('no term is granted, and none is used twice when there is room again', async () => {
    const disk = smallDisk()
    const { state, campaign } = await open(disk.directory)
    await campaign('a')
    disk.fill()
    // Some writes find room in pages that are free within the file.
    const failed = new Map<string, number>()
    for (let index = 0; index < 50; index++) {
      const groupId = `group-${index}`
      await campaign('a', { groupId }).catch(() => failed.set(groupId, 1))
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
        await campaign('a', { groupId, metadata: { filler: 'x'.repeat(1_000) } })
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
    while (await campaign('x', { groupId: `group-${Math.random()}` }).catch(() => undefined));
    await clock.advance(5_000)
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
    while (await campaign('x', { groupId: `group-${Math.random()}` }).catch(() => undefined));
    const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }
    const defined = state.define('jobs', { policy, allowedNodes: undefined }, { replace: false })
    const early = campaign('a')
    const late = defined.catch(() => {
      disk.free()
      return campaign('b')
    })
    const verdicts = await Promise.all([early, late])
    expect(verdicts.map((verdict) => (verdict as Verdict).granted).filter(Boolean)).toHaveLength(1)
  })

  test('a service that has no room for its first data says so', async () => {
    const disk = smallDisk()
    disk.fill()
    const directory = join(disk.directory, 'data')
    await expect(ServiceProcess.start({ directory })).rejects.toThrow(/ENOSPC|No space left/)
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
    expect(await after.ask('GET', '/readyz')).toMatchObject({ status: 503 })
    disk.free()
    expect(await after.ask('GET', '/readyz')).toMatchObject({ status: 200 })
  })
})
