import { execFileSync } from 'node:child_process'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms, describeWithRight } from '../../../../test/servers/suite.ts'
import { faultyStart, type FaultyStart } from './faulty-start.ts'
import { expectNoOverlap, runs, scene, signal, stopWithoutLock, type Scene, type Wrapper } from './scene.ts'
import { serve, temporaryFolder } from '../tenure.ts'

interface Hanging {
  readonly on: Scene
  readonly start: FaultyStart
  readonly first: Wrapper
  /** The process id of the child that was forked for the command and executes nothing yet. */
  readonly pid: number
}

/** Starts a wrapper that leads and whose command hangs in its start. */
async function hanging(args: readonly string[], store?: string): Promise<Hanging> {
  const on = scene(store)
  const start = faultyStart()
  start.set('hang')
  const first = on.work([...args, '--identity', 'first'], ['--stubborn'], { env: start.env })
  const pid = await start.hanging()
  onTestFinished(() => signal(pid, 'SIGKILL'))
  return { on, start, first, pid }
}

async function standby(on: Scene, args: readonly string[]): Promise<Wrapper> {
  const second = on.work([...args, '--identity', 'second'])
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  return second
}

/** Expects that the second wrapper leads, and that the hanging process was gone before that and does not come back. */
async function expectNeverRun({ on, start, pid }: Hanging): Promise<void> {
  await on.wrote('begin', 2)
  expect(runs(pid)).toBe(false)
  start.unset('hang')
  const count = on.lines().length
  await vi.waitUntil(() => on.lines().length > count + 20, { timeout: 10_000 })
  expect(start.executed()).not.toContain(pid)
  expect(expectNoOverlap(on.lines())).toEqual([2])
}

describeWithPrograms([programs.cc], 'a start that hangs', () => {
  test('a hanging start is abandoned at the deadline of the lease, before another machine leads', async () => {
    const served = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(served.url).port))
    onTestFinished(() => proxy.stop())
    const lease = ['--ttl', '3s']
    const at = await hanging([...lease, '--store', `http://127.0.0.1:${proxy.port}`], served.url)
    await standby(at.on, lease)
    proxy.set('blackhole')
    await expectNeverRun(at)
    expect(at.first.isOver()).toBe(false)
  })

  test('a hanging start is abandoned after a while even when the lease is renewed, and the lease is released only then', async () => {
    const at = await hanging(['--ttl', '60s'])
    await standby(at.on, ['--ttl', '60s'])
    await expectNeverRun(at)
    expect(at.first.isOver()).toBe(false)
  })

  test('a hanging start is abandoned when tenure is asked to stop, and the lease is released only then', async () => {
    const at = await hanging(['--ttl', '60s', '--drain-timeout', '300ms'])
    await standby(at.on, ['--ttl', '60s'])
    at.first.child.kill('SIGTERM')
    await expectNeverRun(at)
    expect(await at.first.ended).toBe(1)
    expect(at.first.output.error).toContain('the supervisor died or did not answer')
  })

  test('a hanging start is abandoned when the supervisor dies during it', async () => {
    const at = await hanging(['--ttl', '60s'])
    await standby(at.on, ['--ttl', '60s'])
    signal(at.first.supervisor(), 'SIGKILL')
    await expectNeverRun(at)
  })

  test('tenure waits for a hanging start while the lease is renewed, past the first deadline', async () => {
    const { on, start, first, pid } = await hanging(['--ttl', '3s'])
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    start.unset('hang')
    await on.wrote('begin', 1)
    await vi.waitUntil(() => on.lines().length > 50, { timeout: 20_000 })
    expect(runs(pid)).toBe(true)
    expect(on.lines().filter(({ what }) => what === 'SIGTERM')).toEqual([])
    expect(first.output.error).not.toContain('the command')
  })

  test('a start that hangs past its lease is killed as soon as it continues, even while tenure is stopped', async () => {
    const { on, start, first, pid } = await hanging(['--ttl', '1500ms'])
    const supervisor = first.supervisor()
    await stopWithoutLock(on, first)
    const second = on.work(['--ttl', '1500ms', '--identity', 'second'])
    await vi.waitUntil(() => second.output.error.includes('in term 2'), { timeout: 20_000 })
    start.unset('hang')
    await vi.waitUntil(() => !runs(pid), { timeout: 20_000 })
    expect(on.lines().filter(({ what, term }) => what === 'SIGTERM' && term === 1)).toEqual([])
    first.child.kill('SIGCONT')
    // Before tenure counts the supervisor as lost, it reads what the supervisor has reported in the meantime.
    await vi.waitUntil(() => first.output.error.includes('second leads'), { timeout: 20_000 })
    expect(first.output.error).toContain('the command was ended by SIGKILL')
    expect(runs(supervisor)).toBe(true)
  })
})

describeWithPrograms([programs.cc], 'where nobody can fork', () => {
  test('tenure reports that it cannot start its supervisor, and never leads', async () => {
    const on = scene()
    const start = faultyStart()
    start.set('no-fork')
    const { ended, output } = on.work([], [], { env: start.env })
    expect(await ended).toBe(1)
    expect(output.error).toMatch(/^tenure: Cannot start the supervisor process: spawn .*EAGAIN\n$/)
  })

  test.each(['file', 'service'] as const)(
    'the lease is released when no supervisor can replace one that died, on a %s store',
    async (kind) => {
      const on = scene(kind === 'file' ? undefined : (await serve(temporaryFolder())).url)
      const start = faultyStart()
      const args = ['--ttl', '60s', '--restart-delay', '100ms']
      const first = on.work([...args, '--identity', 'first'], [], { env: start.env })
      await on.wrote('begin', 1)
      start.set('no-fork')
      signal(first.supervisor(), 'SIGKILL')
      await vi.waitUntil(() => first.output.error.includes('Cannot start the supervisor'), { timeout: 20_000 })
      on.work(args)
      await vi.waitUntil(() => expectNoOverlap(on.lines()).length > 1, { timeout: 20_000 })
      if (kind === 'service') expect(await first.ended).toBe(1)
    },
  )

  test('a run that cannot fork fails and is retried by the restart policy until it succeeds', async () => {
    const on = scene()
    const start = faultyStart()
    const holder = on.work(['--identity', 'holder'])
    await on.wrote('begin', 1)
    const first = on.work(['--restart-delay', '100ms'], [], { env: start.env })
    await vi.waitUntil(() => first.output.error.includes('holder leads'), { timeout: 20_000 })
    start.set('no-fork')
    holder.child.kill('SIGTERM')
    await vi.waitUntil(() => first.output.error.includes('restarting the command in 200ms'), { timeout: 20_000 })
    expect(first.output.error).toMatch(/the command did not start: spawn .*EAGAIN/)
    start.unset('no-fork')
    await vi.waitUntil(() => expectNoOverlap(on.lines()).length > 1, { timeout: 20_000 })
  })

  test('tenure exits with 126 and releases the lease when a run cannot fork and is not retried', async () => {
    const on = scene()
    const start = faultyStart()
    const holder = on.work(['--identity', 'holder'])
    await on.wrote('begin', 1)
    const first = on.work(['--restart', 'never', '--ttl', '60s'], [], { env: start.env })
    await vi.waitUntil(() => first.output.error.includes('holder leads'), { timeout: 20_000 })
    start.set('no-fork')
    holder.child.kill('SIGTERM')
    expect(await first.ended).toBe(126)
    expect(first.output.error).toContain('EAGAIN')
    expect(await on.work(['--once', '--ttl', '60s'], ['--exit', '0']).ended).toBe(0)
  })
})

/** Why this user cannot mount. Undefined if it can. */
const mountFailure = (() => {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/proc'], { stdio: 'ignore' })
    return undefined
  } catch (error) {
    return `this user may not mount: ${String(error)}`
  }
})()

describeWithRight(mountFailure, 'where there is no /proc', () => {
  const within = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh']

  test('without /proc a running command is not mistaken for gone', async () => {
    const on = scene()
    const first = on.work(['--ttl', '5s', '--identity', 'first'], [], { within })
    const { pid } = await on.wrote('begin', 1)
    onTestFinished(() => signal(pid, 'SIGKILL'))
    await standby(on, ['--ttl', '5s'])
    // This is longer than tenure waits for a supervisor that does not report that its command is gone.
    await new Promise((resolve) => setTimeout(resolve, 4_500))
    expect(expectNoOverlap(on.lines())).toEqual([1])
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(143)
    await on.wrote('begin', 2)
    expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  })

  test('without /proc a stopped supervisor that does not reap its command does not keep tenure from exiting', async () => {
    const on = scene()
    const first = on.work(['--ttl', '5s', '--drain-timeout', '2s'], [], { within })
    await on.wrote('begin', 1)
    signal(first.supervisor(), 'SIGSTOP')
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(143)
  })
})
