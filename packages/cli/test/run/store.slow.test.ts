import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startProxy, type Proxy } from '../../../../test/servers/proxy.ts'
import { expectNoOverlap, runs, scene, signal, type Scene, type Wrapper } from './scene.ts'
import { serve, temporaryFolder, type Served } from '../tenure.ts'

const ttlMs = 4_000
const lease = ['--ttl', `${ttlMs}ms`]

interface Place {
  readonly on: Scene
  readonly served: Served
  /** The proxy between the first wrapper and the service. */
  readonly proxy: Proxy
  readonly first: Wrapper
  readonly second: Wrapper
  readonly pid: number
}

async function place(worker: readonly string[] = []): Promise<Place> {
  const served = await serve(temporaryFolder())
  const proxy = await startProxy(Number(new URL(served.url).port))
  onTestFinished(() => proxy.stop())
  const on = scene(served.url)
  const first = on.work([...lease, '--store', `http://127.0.0.1:${proxy.port}`, '--identity', 'first'], worker)
  const { pid } = await on.wrote('begin', 1)
  const second = on.work([...lease, '--identity', 'second'])
  await vi.waitUntil(() => second.output.error.includes('first leads'), { timeout: 20_000 })
  return { on, served, proxy, first, second, pid }
}

async function expectTakeOver({ on }: Place): Promise<void> {
  await on.wrote('begin', 2)
  await vi.waitUntil(() => on.lines().filter(({ term }) => term === 2).length > 20, { timeout: 20_000 })
  expect(expectNoOverlap(on.lines())).toEqual([1, 2])
}

describe('the command has ended before another machine leads', () => {
  test.each([
    ['can no longer be reached', (proxy: Proxy) => proxy.set('blackhole')],
    ['gets requests but its answers are lost', (proxy: Proxy) => proxy.set('blackhole', 'to-client')],
    ['takes longer than a lease to answer', (proxy: Proxy) => proxy.set({ delayMs: 2 * ttlMs })],
    ['answers byte by byte', (proxy: Proxy) => proxy.set({ bytes: 1, everyMs: 200 }, 'to-client')],
    [
      'refuses connections',
      (proxy: Proxy) => {
        proxy.refuse()
        proxy.reset()
      },
    ],
  ])('the command has ended before another machine leads when the store %s', async (_, break_) => {
    const at = await place(['--stubborn'])
    break_(at.proxy)
    await expectTakeOver(at)
    expect(runs(at.pid)).toBe(false)
    expect(at.on.lines().filter(({ what, term }) => what === 'SIGTERM' && term === 1)).toHaveLength(1)
    expect(at.first.isOver()).toBe(false)
  })
})

test('a leader keeps its lease while the store is slow but answers within the timeouts', async () => {
  const { on, proxy, pid, first } = await place()
  proxy.set({ delayMs: 150 })
  await new Promise((resolve) => setTimeout(resolve, 2 * ttlMs))
  expect(runs(pid)).toBe(true)
  expect(new Set(on.lines().map(({ term }) => term))).toEqual(new Set([1]))
  first.child.kill('SIGTERM')
  expect(await first.ended).toBe(143)
  await on.wrote('begin', 2)
})

test('a store that hangs ends the command, and the same machine leads again and says that the store answers again', async () => {
  const served = await serve(temporaryFolder())
  const on = scene(served.url)
  const wrapper = on.work(lease)
  for (const term of [1, 2]) {
    const { pid } = await on.wrote('begin', term)
    signal(served.child.pid ?? 0, 'SIGSTOP')
    await vi.waitUntil(() => !runs(pid), { timeout: 20_000 })
    expect(wrapper.isOver()).toBe(false)
    signal(served.child.pid ?? 0, 'SIGCONT')
  }
  await on.wrote('begin', 3)
  expect(expectNoOverlap(on.lines())).toEqual([1, 2, 3])
  expect(wrapper.output.error.split('the store answers again')).toHaveLength(3)
})

test('a store that hangs while the command drains does not let the command outlive its lease', async () => {
  const served = await serve(temporaryFolder())
  const on = scene(served.url)
  const { child, ended } = on.work([...lease, '--drain-timeout', '1h'], ['--stubborn'])
  const begun = await on.wrote('begin', 1)
  signal(served.child.pid ?? 0, 'SIGSTOP')
  child.kill('SIGTERM')
  expect(await ended).toBe(137)
  expect((on.lines().at(-1)?.at ?? Infinity) - begun.at).toBeLessThan(2 * ttlMs)
  signal(served.child.pid ?? 0, 'SIGCONT')
})

test('nobody else leads while a service is killed and restarted', async () => {
  const data = temporaryFolder()
  const served = await serve(data)
  const { port } = new URL(served.url)
  const on = scene(served.url)
  on.work(lease)
  on.work(lease)
  const { pid } = await on.wrote('begin', 1)
  served.child.kill('SIGKILL')
  await served.ended
  await serve(data, ['--listen', `127.0.0.1:${port}`])
  await vi.waitUntil(() => !runs(pid) || on.lines().length > 600, { timeout: 25_000 })
  expectNoOverlap(on.lines())
})
