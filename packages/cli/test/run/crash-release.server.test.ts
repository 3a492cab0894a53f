/** Tests what happens to the lease when `tenure run` is killed, on real servers. */
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { redis } from '../../../../test/servers/redis.ts'
import type { RunningServer, ServerKind } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { program, serve, temporaryFolder } from '../tenure.ts'
import { crashChecks } from './crash-checks.ts'
import { noOtherUser } from './other-user.ts'
import { expectNoOverlap, runs, scene, signal } from './scene.ts'
import { ended, ranSecond, released, soonMs, two } from './crash-scene.ts'

const stores: readonly [ServerKind, (server: RunningServer) => string][] = [
  [redis, ({ url }) => url],
  [postgres, ({ url }) => url],
  [etcd, ({ port }) => `etcd://127.0.0.1:${port}`],
]

for (const [kind, urlOf] of stores) {
  describeWith(kind, `tenure run on ${kind.name}`, (server) => {
    test(`the next command on ${kind.name} starts long before the lease expires when tenure and its command are killed`, async () => {
      const { on, first, pid } = await two(urlOf(server()))
      const atMs = performance.now()
      first.child.kill('SIGKILL')
      signal(pid, 'SIGKILL')
      await ranSecond(on)
      expect(performance.now() - atMs).toBeLessThan(soonMs)
      expect(expectNoOverlap(on.lines())).toEqual([1, 2])
    })
  })
}

describe('tenure run on a service', () => {
  test.each([
    ['a command', []],
    ['a command that ignores SIGTERM', ['--stubborn']],
    ['a command with a child process', ['--fork', '']],
    ['a command with a child in its own process group', ['--fork', 'group']],
  ])('the next command starts long before the lease expires when tenure is killed while %s runs', async (_, worker) => {
    const served = await serve(temporaryFolder())
    const { on, first } = await two(served.url, worker)
    const atMs = performance.now()
    first.child.kill('SIGKILL')
    await ranSecond(on)
    expect(performance.now() - atMs).toBeLessThan(soonMs)
    expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  })
})

describeWith(redis, 'what a killed tenure run leaves alone', (server) => {
  test.skipIf(noOtherUser).each(Object.entries(crashChecks))('%s', async (_, check) => {
    await check(program, server().url)
  })

  test('a stopped command keeps its lease', async () => {
    const { pid, url, election, first } = await two(server().url)
    signal(pid, 'SIGSTOP')
    await delay(2_000)
    expect(await released(url, election)).toBe(false)
    // A stopped command is killed like any other.
    first.child.kill('SIGKILL')
    await ended(pid)
    expect(runs(pid)).toBe(false)
  })

  test('a stopped tenure keeps its lease', async () => {
    const { url, election, first } = await two(server().url)
    first.child.kill('SIGSTOP')
    await delay(2_000)
    expect(await released(url, election)).toBe(false)
  })

  test('a supervisor that replaced a dead one also releases the lease', async () => {
    const { url } = server()
    const election = 'replaced-supervisor'
    const on = scene(url, election)
    const first = on.work(['--ttl', '3s', '--restart-delay', '10ms', '--hold'])
    await on.wrote('begin', 1)
    const earlier = first.supervisor()
    signal(earlier, 'SIGKILL')
    await expect.poll(() => new Set(on.lines().map(({ pid }) => pid)).size, { timeout: 20_000 }).toBeGreaterThan(1)
    // A guard that died is replaced at most once per lease.
    await delay(4_000)
    const supervisor = first.supervisor()
    expect(supervisor).not.toBe(earlier)
    first.child.kill('SIGKILL')
    await ended(supervisor)
    expect(await released(url, election)).toBe(true)
  })

  test('the supervisor of a killed standby exits without touching the lease of the leader', async () => {
    const { url, election, second } = await two(server().url)
    const supervisor = second.supervisor()
    second.child.kill('SIGKILL')
    await ended(supervisor)
    expect(await released(url, election)).toBe(false)
  })
})
