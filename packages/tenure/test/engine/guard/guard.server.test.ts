/** Tests the guard on real servers: what it notices, and what it must not touch. */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import type { RunningServer, ServerKind } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import type { Explanation } from '../../../src/index.ts'
import {
  guardsOf,
  newElection,
  openedStore,
  soonMs,
  startLeader,
  startStandby,
  type Leader,
} from './guarded-process.ts'

const urlOf = ({ url, port }: RunningServer, scheme: string) =>
  scheme === 'etcd' ? `etcd://127.0.0.1:${port}` : url.replace(/^http/, scheme)

const stores: readonly [ServerKind, string][] = [
  [redis, 'redis'],
  [postgres, 'postgres'],
  [etcd, 'etcd'],
]

for (const [kind, scheme] of stores) {
  describeWith(kind, `the guard on ${kind.name}`, (server) => {
    test.each(['SIGKILL', 'abort', 'exit', 'throw', 'reject', 'out of memory'])(
      `a standby on ${kind.name} leads long before the lease expires when a process ends by %s`,
      async (end) => {
        const url = urlOf(server(), scheme)
        const election = newElection()
        const leader = await startLeader(url, { elections: [election] })
        const standby = await startStandby(url, election)
        const ended = once(leader.child, 'exit')
        if (end === 'SIGKILL') leader.child.kill('SIGKILL')
        else leader.child.send(end)
        await ended
        const endedAt = performance.now()
        await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
        expect(performance.now() - endedAt).toBeLessThan(soonMs)
      },
    )
  })
}

describeWith(redis, 'what the guard leaves alone', (server) => {
  test('a paused process keeps its lease until it expires', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election], leaseDurationMs: 4_000 })
    const standby = await startStandby(server().url, election, { leaseDurationMs: 4_000 })
    leader.child.kill('SIGSTOP')
    const pausedAt = performance.now()
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
    // Its newest renewal was at most a third of the lease ago.
    expect(performance.now() - pausedAt).toBeGreaterThan(2_000)
  })

  test('a process keeps leading when its file descriptors are closed', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election] })
    const standby = await startStandby(server().url, election)
    await leader.tell('close the pipe')
    await delay(2_000)
    expect(standby.isLeader()).toBe(false)
    expect(standby.leader()).toMatchObject({ released: false })
  })

  test('the lease of a process with a busy worker thread is released only after the whole process has exited', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election] })
    const standby = await startStandby(server().url, election)
    await leader.tell('busy worker')
    leader.child.kill('SIGKILL')
    await standby.waitForLeadership({ signal: AbortSignal.timeout(soonMs) })
    expect(leader.child.exitCode ?? leader.child.signalCode).toBe('SIGKILL')
  })

  test('a restart with the same identity immediately after a crash keeps what it was granted', async () => {
    const elections = [newElection()]
    const first = await startLeader(server().url, { elections, identity: 'same' })
    const second = await startLeader(server().url, { elections, identity: 'same', waits: true })
    const killedAt = performance.now()
    first.child.kill('SIGKILL')
    const leading = second.tell('start', 'leads')
    await leading
    expect(performance.now() - killedAt).toBeLessThan(soonMs)
    await delay(1_000)
    const { explanation } = (await second.tell('explain', 'explained')) as { explanation: Explanation }
    expect(explanation).toMatchObject({ isLeader: true, term: 2, releaseOnCrash: 'armed' })
  })

  test('a child process that outlives its leader does not delay the release', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election] })
    const { id } = (await leader.tell('start a child', 'child')) as { id: number }
    onTestFinished(() => void process.kill(id, 'SIGKILL'))
    const standby = await startStandby(server().url, election)
    leader.child.kill('SIGKILL')
    await standby.waitForLeadership({ signal: AbortSignal.timeout(soonMs) })
    expect(process.kill(id, 0)).toBe(true)
  })

  test('the guard metric is 1 only while a crash would be noticed', async () => {
    const elections = [newElection()]
    const armed = async ({ tell }: Leader) => {
      const { text } = await tell('metrics', 'measured')
      return /^tenure_guard_armed\{election="[^"]+"\} (\d)$/m.exec(String(text))?.[1]
    }
    const leader = await startLeader(server().url, { elections })
    const standby = await startLeader(server().url, { elections, waits: true })
    standby.child.send('start')
    const env = { TENURE_GUARD: '/nonexistent/guard.sock' }
    const unguarded = await startLeader(server().url, { elections: [newElection()], env })
    expect(await armed(leader)).toBe('1')
    await vi.waitFor(async () => expect(await armed(standby)).toBe('0'))
    expect(await armed(unguarded)).toBe('0')
  })

  test('a hundred elections of one process are all released', async () => {
    const names = Array.from({ length: 100 }, newElection)
    const leader = await startLeader(server().url, { elections: names })
    expect(guardsOf(leader.child)).toHaveLength(1)
    const ended = once(leader.child, 'exit')
    leader.child.kill('SIGKILL')
    await ended
    const store = await openedStore(server().url)
    const call = { signal: AbortSignal.timeout(30_000), timeoutMs: 5_000 }
    const held = async () => {
      const records = await Promise.all(names.map((name) => store.read(name, call)))
      return records.filter((record) => !record?.released).length
    }
    await vi.waitFor(async () => expect(await held()).toBe(0), { timeout: soonMs })
  })

  test('a guard that is killed is replaced, and the replacement releases the lease', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election], leaseDurationMs: 3_000 })
    const [first = 0] = guardsOf(leader.child)
    process.kill(first, 'SIGKILL')
    await vi.waitFor(() => expect(guardsOf(leader.child).filter((id) => id !== first)).toHaveLength(1), {
      timeout: 15_000,
    })
    const standby = await startStandby(server().url, election)
    leader.child.kill('SIGKILL')
    await standby.waitForLeadership({ signal: AbortSignal.timeout(soonMs) })
  })

  test('a paused guard only slows down the takeover after a crash', async () => {
    const election = newElection()
    const leader = await startLeader(server().url, { elections: [election], leaseDurationMs: 3_000 })
    const [guard = 0] = guardsOf(leader.child)
    process.kill(guard, 'SIGSTOP')
    onTestFinished(() => void process.kill(guard, 'SIGKILL'))
    await delay(4_000)
    const { explanation } = (await leader.tell('explain', 'explained')) as { explanation: Explanation }
    expect(explanation.isLeader).toBe(true)
    const standby = await startStandby(server().url, election, { leaseDurationMs: 3_000 })
    leader.child.kill('SIGKILL')
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
  })

  test('the guard ends when the electors of its process have stopped', async () => {
    const leader = await startLeader(server().url, { elections: [newElection(), newElection()] })
    expect(guardsOf(leader.child)).toHaveLength(1)
    await leader.tell('stop')
    await vi.waitFor(() => expect(guardsOf(leader.child)).toEqual([]))
  })
})
