/** Tests `tenure guard` on a real server: which processes it serves, which it refuses, and how it ends. */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, lstatSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { noOtherUser, otherUser } from '../../run/other-user.ts'
import { run } from '../../tenure.ts'
import { armed, connected, newPath, recordOf, said, soonMs, startGuard, startLeader, takeoverMs } from './scene.ts'

/** Options for a separate PID namespace, which ends with the program that runs in it. */
const namespace = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
const hasNamespaces = spawnSync(namespace[0] ?? '', [...namespace.slice(1), 'true']).status === 0

describeWith(redis, 'tenure guard', (server) => {
  test('a standby leads long before the lease expires when a process that the guard serves dies', async () => {
    const { url } = server()
    const guard = await startGuard(url)
    const [one, two] = await Promise.all([startLeader(url, guard.path), startLeader(url, `unix:${guard.path}`)])
    await armed(one)
    await armed(two)
    expect(await takeoverMs(url, one.election, () => one.child.kill('SIGKILL'))).toBeLessThan(soonMs)
    await said(guard, `released ${one.election} in term 1`)
    expect(guard.output.error).not.toContain(two.election)
    expect(await takeoverMs(url, two.election, () => two.child.kill('SIGKILL'))).toBeLessThan(soonMs)
  })

  test('a process that lost its connection but still runs keeps its lease', async () => {
    const { url } = server()
    const guard = await startGuard(url)
    const leader = await startLeader(url, guard.path)
    await armed(leader)
    await leader.tell('close the pipe')
    await delay(2_000)
    expect(await recordOf(url, leader.election)).toMatchObject({ term: 1, released: false })
    expect(guard.output.error).not.toContain('released')
  })

  test.runIf(hasNamespaces)(
    'a process in another PID namespace is refused, and its lease is not released',
    async () => {
      const { url } = server()
      const guard = await startGuard(url)
      const leader = await startLeader(url, guard.path, namespace)
      await said(guard, 'refused a process: The process is in another PID namespace.')
      leader.child.kill('SIGKILL')
      await once(leader.child, 'exit')
      await delay(2_000)
      expect(await recordOf(url, leader.election)).toMatchObject({ term: 1, released: false })
    },
  )

  test('a process that is not visible in /proc is refused', async () => {
    const guard = await startGuard(server().url)
    const socket = await connected(guard.path)
    const pid = readlinkSync('/proc/self/ns/pid')
    // A start time from another time namespace, with which the process would look dead although it is running.
    socket.write(`${JSON.stringify({ type: 'process', id: process.pid, startedAt: '1', namespace: pid })}\n`)
    await once(socket, 'close')
    await said(guard, 'refused a process: The process is not visible in /proc.')
  })

  test('the guard survives messages that are malformed or too long, and closes these connections', async () => {
    const guard = await startGuard(server().url)
    for (const text of ['{"type":"process","secret":\n', 'null\n', 'x'.repeat(200_000)]) {
      const socket = await connected(guard.path)
      socket.write(text)
      // If the guard does not read all bytes, the connection is reset instead of closed.
      await new Promise((resolve) => socket.once('close', resolve))
    }
    expect(guard.output.error).not.toContain('secret')
    expect(guard.child.exitCode).toBe(null)
  })

  test('a process that registers more than 1,000 attempts is disconnected', async () => {
    const guard = await startGuard(server().url)
    const socket = await connected(guard.path)
    for (let count = 0; count <= 1_000; count++) {
      const fields = { storeUrl: '', election: `e${count}`, holder: 'a', attempt: `a${count}`, writeIds: [] }
      const attempt = { ...fields, afterTerm: 0, leaseDurationMs: 15_000, afterMs: 0 }
      socket.write(`${JSON.stringify({ type: 'register', attempt })}\n`)
    }
    await once(socket, 'close')
    await said(guard, 'The process registered more than 1000 attempts.')
  })

  test('at most 256 connections are served, and silent ones are closed', async () => {
    const guard = await startGuard(server().url)
    const sockets = await Promise.all(Array.from({ length: 256 }, () => connected(guard.path)))
    const closed = Promise.all(sockets.map((socket) => once(socket, 'close')))
    await once(await connected(guard.path), 'close')
    await said(guard, 'It already guards 256 processes.')
    await closed
    const leader = await startLeader(server().url, guard.path)
    await armed(leader)
  })

  test('after SIGTERM the guard runs until the processes that it serves have exited, and still notices a crash', async () => {
    const { url } = server()
    const guard = await startGuard(url)
    const leader = await startLeader(url, guard.path)
    await armed(leader)
    guard.child.kill('SIGTERM')
    await said(guard, 'waiting for the end of 1 connection')
    expect(existsSync(guard.path)).toBe(false)
    expect(await takeoverMs(url, leader.election, () => leader.child.kill('SIGKILL'))).toBeLessThan(soonMs)
    expect(await guard.ended).toBe(0)
  })

  test('a second SIGTERM ends the guard immediately', async () => {
    const { url } = server()
    const guard = await startGuard(url)
    const leader = await startLeader(url, guard.path)
    await armed(leader)
    guard.child.kill('SIGTERM')
    await said(guard, 'waiting for the end of 1 connection')
    guard.child.kill('SIGTERM')
    expect(await guard.ended).toBe(143)
    expect(await recordOf(url, leader.election)).toMatchObject({ released: false })
  })

  test('a guard without processes exits at the first SIGTERM and removes its socket', async () => {
    const guard = await startGuard(server().url)
    guard.child.kill('SIGTERM')
    expect(await guard.ended).toBe(0)
    expect(existsSync(guard.path)).toBe(false)
  })

  describe('the socket', () => {
    test('the socket has mode 600, or 660 and the group that --group names', async () => {
      const own = await startGuard(server().url)
      expect(lstatSync(own.path).mode & 0o777).toBe(0o600)
      const [group = 0] = process.getgroups?.() ?? []
      const shared = await startGuard(server().url, ['--group', String(group)])
      expect(lstatSync(shared.path)).toMatchObject({ gid: group })
      expect(lstatSync(shared.path).mode & 0o777).toBe(0o660)
    })

    test.skipIf(noOtherUser)('another user cannot connect, unless it is in the group', async () => {
      const attempt = ({ path }: { path: string }) => {
        chmodSync(dirname(path), 0o755)
        const script = `require('net').connect(process.argv[1]).on('connect', () => process.exit(0)).on('error', (error) => (console.log(error.code), process.exit(1)))`
        const { stdout, status } = spawnSync(process.execPath, ['-e', script, path], { ...otherUser, encoding: 'utf8' })
        return status === 0 ? 'connected' : stdout.trim()
      }
      expect(attempt(await startGuard(server().url))).toBe('EACCES')
      expect(attempt(await startGuard(server().url, ['--group', String(otherUser.gid)]))).toBe('connected')
    })

    test('a socket that a killed guard left behind is replaced', async () => {
      const first = await startGuard(server().url)
      first.child.kill('SIGKILL')
      await first.ended
      expect(existsSync(first.path)).toBe(true)
      const second = await startGuard(server().url, [], first.path)
      await connected(second.path)
    })

    test('a socket on which another program listens is not replaced', async () => {
      const path = newPath()
      const other = createServer().listen(path)
      onTestFinished(() => void other.close())
      await once(other, 'listening')
      const { code, error } = await run(['guard', '--listen', `unix:${path}`, '--store', server().url])
      expect({ code, error }).toMatchObject({
        code: 69,
        error: expect.stringContaining('another program is listening'),
      })
      await connected(path)
    })

    test('a file that is not a socket is not replaced', async () => {
      const path = newPath()
      writeFileSync(path, 'precious')
      expect(await run(['guard', '--listen', `unix:${path}`, '--store', server().url])).toMatchObject({ code: 69 })
      expect(lstatSync(path).size).toBe(8)
    })
  })

  test.each([
    ['a memory store', ['--store', 'memory:'], 'must be a server'],
    ['a file store', ['--store', 'file:///var/lib/leases'], 'must be a server'],
    ['a TCP address', ['--listen', '127.0.0.1:4040'], '--listen must be unix:PATH'],
    ['a mode of the socket', ['--listen', 'unix:/run/tenure/guard.sock?mode=0666'], '--listen must be unix:PATH'],
    ['an unknown group', ['--group', 'nobody-has-this-group'], '--group must be'],
  ])('%s is refused with exit code 2', async (_, args, text) => {
    const { code, error } = await run(['guard', '--listen', `unix:${newPath()}`, '--store', server().url, ...args])
    expect({ code, error }).toEqual({ code: 2, error: expect.stringContaining(text) })
  })
})
