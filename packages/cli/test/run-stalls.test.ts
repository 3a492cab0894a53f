import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../test/servers/proxy.ts'
import { faultyStart, noFaultyStart, type FaultyStart } from './run/faulty-start.ts'
import { childrenOf, expectNoOverlap, runs, scene, signal, stateOf, type Scene, type Wrapper } from './run/scene.ts'
import { serve, temporaryFolder } from './tenure.ts'

const lease = ['--ttl', '1500ms']

async function stopped({ child }: Wrapper): Promise<void> {
  await vi.waitUntil(() => stateOf(child.pid ?? 0) === 'T', { timeout: 20_000, interval: 10 })
}

async function tells({ output }: Wrapper, text: string): Promise<void> {
  await vi.waitUntil(() => output.error.includes(text), { timeout: 20_000 })
}

describe.skipIf(noFaultyStart)('a job of the fleet whose leader was stopped for longer than its lease', () => {
  const points = `--import=${pathToFileURL(join(import.meta.dirname, 'run/stop-at.mjs')).href}`
  const stopAt = (point: string, start: FaultyStart) => ({
    env: { ...start.env, STOP_AT: point, NODE_OPTIONS: points },
  })
  const begun = (on: Scene) => on.lines().filter(({ what }) => what === 'begin')

  test.each([
    ['when it had just won is run by the next one alone', 'elected', [2]],
    ['when it was about to note the run is run by the next one alone', 'decides', [2]],
    ['when it had noted the run is not run by anybody: the note counts', 'noted', []],
  ] as const)('%s', async (_, point, terms) => {
    const on = scene()
    const args = [...lease, '--at-most-once-per', '1h']
    const start = faultyStart()
    const first = on.work(args, ['--exit', '0'], stopAt(point, start))
    await stopped(first)
    expect(await on.work(args, ['--exit', '0']).ended).toBe(0)
    first.child.kill('SIGCONT')
    expect(await first.ended).toBe(75)
    expect(start.executed()).toEqual([])
    expect(begun(on).map(({ term }) => term)).toEqual(terms)
  })

  test.each(['decides', 'noted'])('does not run a time of a schedule again: %s', async (point) => {
    const on = scene()
    const args = [...lease, '--every', '* * * * * *']
    const start = faultyStart()
    const first = on.work(args, ['--exit', '0'], stopAt(point, start))
    await stopped(first)
    const second = on.work([...args, '--identity', 'second'], ['--exit', '0'])
    const more = (count: number) => vi.waitUntil(() => begun(on).length >= count, { timeout: 20_000 })
    await more(1)
    first.child.kill('SIGCONT')
    await tells(first, 'second leads')
    await more(begun(on).length + 2)
    expect(second.isOver() || first.isOver()).toBe(false)
    expect(start.executed()).toEqual([])
    const slots = begun(on).map(({ slot }) => slot)
    expect(slots).toEqual([...new Set(slots)].sort())
    expect(begun(on).every(({ term }) => term === 2)).toBe(true)
  })
})

test.skipIf(noFaultyStart)('an order to start that is read after its time starts nothing', async () => {
  const on = scene((await serve(temporaryFolder())).url)
  const start = faultyStart()
  const holder = on.work([...lease, '--identity', 'holder'])
  await on.wrote('begin', 1)
  const first = on.work(lease, [], { env: start.env })
  await tells(first, 'holder leads')
  const supervisor = first.supervisor()
  signal(supervisor, 'SIGSTOP')
  holder.child.kill('SIGTERM')
  await tells(first, 'in term 2')
  // Until the order was sent, which nobody sees.
  await new Promise((resolve) => setTimeout(resolve, 500))
  first.child.kill('SIGSTOP')
  on.work([...lease, '--identity', 'second'])
  await on.wrote('begin', 3)
  signal(supervisor, 'SIGCONT')
  await new Promise((resolve) => setTimeout(resolve, 500))
  first.child.kill('SIGCONT')
  await tells(first, 'second leads')
  expect(start.executed()).toEqual([])
  expect(expectNoOverlap(on.lines())).toEqual([1, 3])
})

test.each(['tenure', 'its supervisor'] as const)(
  'after both were stopped past the lease, %s kills as soon as it goes on, whatever answers it finds',
  async (who) => {
    const served = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(served.url).port))
    onTestFinished(() => proxy.stop())
    const on = scene(served.url)
    const first = on.work(['--ttl', '3s', '--store', `http://127.0.0.1:${proxy.port}`], ['--stubborn'])
    const { pid } = await on.wrote('begin', 1)
    // The answer to a renewal is on its way, and is read too late.
    proxy.set('hold', 'to-client')
    await vi.waitUntil(() => proxy.queuedBytes > 0, { timeout: 20_000, interval: 5 })
    const both = { tenure: first.child.pid ?? 0, 'its supervisor': first.supervisor() }
    for (const each of Object.values(both)) signal(each, 'SIGSTOP')
    const second = on.run([...lease, '--', 'sleep', '1000'])
    await tells(second, 'in term 2')
    expect(runs(pid)).toBe(true)
    proxy.set('pass')
    signal(both[who], 'SIGCONT')
    await vi.waitUntil(() => !runs(pid), { timeout: 10_000, interval: 5 })
    expect(on.lines().filter(({ what }) => what === 'SIGTERM')).toEqual([])
  },
)

test('tenure that was stopped while its supervisor started finds it ready, and goes on', async () => {
  const on = scene()
  const wrapper = on.work([])
  const supervisor = await vi.waitUntil(() => childrenOf(wrapper.child.pid ?? 0)[0], { timeout: 20_000, interval: 2 })
  wrapper.child.kill('SIGSTOP')
  // Longer than it waits for an answer.
  await new Promise((resolve) => setTimeout(resolve, 5_500))
  wrapper.child.kill('SIGCONT')
  await on.wrote('begin', 1)
  expect(runs(supervisor)).toBe(true)
})
