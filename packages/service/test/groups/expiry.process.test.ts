import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ExpiryQueue } from '../../src/groups/expiry-queue.ts'
import { Members } from '../../src/groups/members.ts'
import { ServiceProcess } from '../disk/service-process.ts'
import { held, open, pass } from './scene.ts'

test('each of many leases ends once when more expire than fit into one write', async () => {
  const scene = await open({ maxGroups: 10_000 })
  const groupIds = Array.from({ length: 4_500 }, (_, index) => `group-${index}`)
  await Promise.all(groupIds.map((groupId) => scene.campaign('a', { groupId })))
  scene.changes.length = 0
  await scene.clock.advance(5_000)
  await scene.state.check()
  expect(scene.changes.length).toBeLessThan(groupIds.length)
  for (let turn = 0; turn < 4; turn++) await pass(scene, 1)
  expect(scene.changes).toEqual(groupIds.map(() => 'LEADER_LOST a 1 expired'))
})

test('the expiry queue yields each item when it expires, even if its expiry was moved after it was added', () => {
  const queue = new ExpiryQueue<{ expiresAtMs: number; ended: boolean }>()
  let seed = 7
  const chance = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
  const items = Array.from({ length: 1_000 }, () => ({ expiresAtMs: chance(500), ended: false }))
  for (const item of items) queue.add(item)
  for (const item of items) {
    if (chance(3) === 0) item.expiresAtMs += chance(500)
    item.ended = chance(5) === 0
  }
  const taken: number[] = []
  for (let nowMs = 0; nowMs < 1_000; nowMs += 10) {
    for (let item = queue.take(nowMs); item; item = queue.take(nowMs)) {
      expect(item.expiresAtMs).toBeGreaterThan(nowMs - 10)
      expect(item.expiresAtMs).toBeLessThanOrEqual(nowMs)
      taken.push(item.expiresAtMs)
    }
  }
  const sorted = (times: number[]) => times.toSorted((a, b) => a - b)
  expect(sorted(taken)).toEqual(sorted(items.filter(({ ended }) => !ended).map(({ expiresAtMs }) => expiresAtMs)))
  expect(queue.nextMs()).toBeUndefined()
})

test('members that were silent for a long time are dropped even if nobody lists them', () => {
  const members = new Members({ memberTtlMs: 1_000, maxMembersPerGroup: 10 })
  members.note('jobs', 'old', '{}', 0)
  members.note('jobs', 'new', '{}', 500)
  members.prune(1_000)
  // List as of a time at which neither member was too old.
  const then = {
    allowed: [],
    last: undefined,
    leaderId: undefined,
    waiting: new Set<string>(),
    nowMs: 500,
    monotonicMs: 0,
  }
  expect(members.list('jobs', then).map(({ nodeId }) => nodeId)).toEqual(['new'])
})

test('a lease from a backup is not live, and no other node leads while its holder may believe that it leads', async () => {
  const scene = await open()
  await scene.campaign('a', { attempt: 'start 1' })
  const backup = mkdtempSync(join(tmpdir(), 'tenure-backup-'))
  onTestFinished(() => rmSync(backup, { recursive: true }))
  await scene.restart()
  cpSync(join(scene.directory, 'elections.mdb'), join(backup, 'elections.mdb'))
  await scene.state.resign(held(1))
  await scene.campaign('b')
  await scene.state.close()
  cpSync(join(backup, 'elections.mdb'), join(scene.directory, 'elections.mdb'))
  await expect(scene.restart()).rejects.toThrow(/older than .*tenure restore --data/)

  await scene.restore()
  const renewal = { ...held(1), extendByMs: 5_000 }
  expect(await scene.state.renew(renewal)).toMatchObject({ granted: false })
  const same = { attempt: 'start 1' }
  expect(await scene.campaign('a', same)).toMatchObject({ granted: false, freeInMs: 10_000 })
  await scene.restart()
  expect(await scene.state.renew(renewal)).toMatchObject({ granted: false })
  await pass(scene, 10_000)
  expect(await scene.campaign('a', same)).toMatchObject({ granted: true, lease: { term: 1_000_002 } })
})

test('a second process on the same directory exits with an error, and the first one continues', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-two-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const first = await ServiceProcess.start({ directory })
  await expect(ServiceProcess.start({ directory })).rejects.toThrow(/ended with 1: .*in use by another process/s)
  expect(await first.ask('GET', '/readyz')).toMatchObject({ status: 200 })
})
