import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { expectNoOverlap, runs, scene, signal, stopWithoutLock, type Scene, type Wrapper } from './scene.ts'
import { serve, temporaryFolder } from '../tenure.ts'

const ttlMs = 4_000
const lease = ['--ttl', `${ttlMs}ms`]

interface Two {
  readonly on: Scene
  readonly first: Wrapper
  readonly second: Wrapper
  /** The process id of the first command. */
  readonly pid: number
  readonly supervisor: number
}

/** Starts two wrappers, as on two machines: the first leads, the second waits. */
async function two(kind: 'file' | 'service', worker: readonly string[] = [], ttl = lease): Promise<Two> {
  const on = scene(kind === 'file' ? undefined : (await serve(temporaryFolder())).url)
  const first = on.work([...ttl, '--identity', 'first'], worker)
  const { pid } = await on.wrote('begin', 1)
  const second = on.work([...ttl, '--identity', 'second'])
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  return { on, first, second, pid, supervisor: first.supervisor() }
}

async function expectTakeOver({ on }: Two): Promise<void> {
  await on.wrote('begin', 2)
  await vi.waitUntil(() => on.lines().filter(({ term }) => term === 2).length > 20, { timeout: 20_000 })
  expect(expectNoOverlap(on.lines())).toEqual([1, 2])
}

/** The time from the last line of the first term to the beginning of the second term. */
function gapMs(on: Scene): number {
  const last = on.lines().findLast(({ term }) => term === 1)
  const next = on.lines().find(({ term }) => term === 2)
  return (next?.at ?? NaN) - (last?.at ?? NaN)
}

const workers = [
  ['a command', []],
  ['a command that ignores SIGTERM', ['--stubborn']],
  ['a command that forks', ['--fork', 'same']],
  ['a command with a child in its own process group', ['--fork', 'group']],
] as const

describe.each(['file', 'service'] as const)('on a %s store', (kind) => {
  test.each(workers)('no two commands run at the same time when tenure is killed while %s runs', async (_, worker) => {
    // The file store notices the death, so nobody waits for the lease, which may be longer than any test.
    const both = await two(kind, worker, kind === 'file' ? ['--ttl', '60s'] : lease)
    if (worker.length > 1) await forked(both.on)
    both.first.child.kill('SIGKILL')
    await expectTakeOver(both)
    expect(runs(both.supervisor)).toBe(false)
    if (kind === 'file') expect(gapMs(both.on)).toBeLessThan(30_000)
  })

  test.each(workers)(
    'no two commands run at the same time when tenure is stopped for longer than its lease while %s runs',
    async (_, worker) => {
      const both = await two(kind, worker)
      if (worker.length > 1) await forked(both.on)
      await stopWithoutLock(both.on, both.first)
      await expectTakeOver(both)
      both.first.child.kill('SIGCONT')
      // The first wrapper continues as a standby.
      await vi.waitUntil(() => both.first.output.error.includes('second leads'), { timeout: 20_000 })
      expect(expectNoOverlap(both.on.lines())).toEqual([1, 2])
    },
  )

  test('no two commands run at the same time when the supervisor is killed', async () => {
    const both = await two(kind, ['--stubborn'])
    signal(both.supervisor, 'SIGKILL')
    await vi.waitUntil(() => both.first.output.error.includes('the supervisor died'), { timeout: 20_000 })
    await vi.waitUntil(() => expectNoOverlap(both.on.lines()).length > 1, { timeout: 20_000 })
    expect(runs(both.pid)).toBe(false)
    expectNoOverlap(both.on.lines())
  })

  test('no two commands run at the same time when the supervisor is stopped and then tenure is asked to stop', async () => {
    const both = await two(kind)
    signal(both.supervisor, 'SIGSTOP')
    both.first.child.kill('SIGTERM')
    expect(await both.first.ended).toBe(143)
    await expectTakeOver(both)
    expect(both.on.lines().filter(({ what }) => what === 'SIGTERM')).toHaveLength(1)
  })
})

async function forked(on: Scene): Promise<void> {
  await vi.waitUntil(() => new Set(on.lines().map(({ pid }) => pid)).size === 2, { timeout: 20_000 })
}

test('tenure ends the command in time even when its supervisor is stopped and the store hangs', async () => {
  const served = await serve(temporaryFolder())
  const on = scene(served.url)
  const wrapper = on.work(lease, ['--stubborn'])
  const { pid } = await on.wrote('begin')
  signal(wrapper.supervisor(), 'SIGSTOP')
  signal(served.child.pid ?? 0, 'SIGSTOP')
  await vi.waitUntil(() => !runs(pid), { timeout: 20_000 })
  const told = on.lines().find(({ what }) => what === 'SIGTERM')
  const last = on.lines().at(-1)
  // SIGTERM came first, and SIGKILL after the grace period.
  expect((last?.at ?? 0) - (told?.at ?? 0)).toBeLessThan(ttlMs / 5 + 300)
  signal(served.child.pid ?? 0, 'SIGCONT')
})

test.each(['file', 'service'] as const)(
  'a standby replaces a stopped supervisor before it starts anything, on a %s store',
  { timeout: 60_000 },
  async (kind) => {
    const both = await two(kind)
    const stopped = both.second.supervisor()
    signal(stopped, 'SIGSTOP')
    both.first.child.kill('SIGTERM')
    await vi.waitUntil(() => both.on.lines().some(({ term }) => term > 1), { timeout: 40_000 })
    expect(runs(stopped)).toBe(false)
    expectNoOverlap(both.on.lines())
  },
)

test('a new supervisor replaces one that died, and the campaign continues', async () => {
  const on = scene()
  const wrapper = on.work([...lease, '--restart-delay', '100ms'])
  await on.wrote('begin', 1)
  const before = wrapper.supervisor()
  signal(before, 'SIGKILL')
  await on.wrote('begin', 2)
  expect(wrapper.supervisor()).not.toBe(before)
  expect(expectNoOverlap(on.lines())).toEqual([1, 2])
  wrapper.child.kill('SIGTERM')
  expect(await wrapper.ended).toBe(143)
})

test('a new supervisor holds the liveness socket of the current term', { timeout: 60_000 }, async () => {
  const on = scene()
  const first = on.work([...lease, '--identity', 'first', '--hold', '--restart-delay', '100ms'])
  await on.wrote('begin', 1)
  signal(first.supervisor(), 'SIGKILL')
  await vi.waitUntil(() => on.lines().filter(({ what }) => what === 'begin').length === 2, { timeout: 20_000 })
  const second = on.work(lease)
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  const supervisor = first.supervisor()
  signal(supervisor, 'SIGSTOP')
  first.child.kill('SIGKILL')
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  signal(supervisor, 'SIGCONT')
  await on.wrote('begin', 2)
  expect(expectNoOverlap(on.lines())).toEqual([1, 2])
})

test('the command keeps running when its supervisor was stopped for longer than the first lease while tenure renewed', async () => {
  const on = scene()
  const wrapper = on.work(['--ttl', '3s'])
  const { pid } = await on.wrote('begin', 1)
  signal(wrapper.supervisor(), 'SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, 4_000))
  signal(wrapper.supervisor(), 'SIGCONT')
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(runs(pid)).toBe(true)
  wrapper.child.kill('SIGTERM')
  expect(await wrapper.ended).toBe(143)
})

test('tenure run leaves no process, no socket and no folder behind', async () => {
  const on = scene()
  const wrapper = on.work(lease, ['--fork', 'same'])
  await forked(on)
  const supervisor = wrapper.supervisor()
  const environment = readFileSync(`/proc/${on.lines()[0]?.pid}/environ`, 'utf8').split('\0')
  const file = environment.find((each) => each.startsWith('TENURE_FENCE_FILE='))?.split('=')[1] ?? ''
  wrapper.child.kill('SIGKILL')
  await vi.waitUntil(() => !runs(supervisor), { timeout: 20_000 })
  for (const { pid } of on.lines()) expect(runs(pid)).toBe(false)
  expect(() => readFileSync(file)).toThrow('ENOENT')
  // The socket of a dead holder stays as proof of its death until the next leader has replaced it.
  const next = on.work([...lease, '--once'], ['--exit', '0'])
  expect(await next.ended).toBe(0)
  expect(readdirSync(join(on.folder, 'leases')).filter((name) => name.endsWith('.sock'))).toEqual([])
})
