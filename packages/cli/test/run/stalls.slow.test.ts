import { expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../../test/servers/proxy.ts'
import { childrenOf, runs, scene, signal } from './scene.ts'
import { serve, temporaryFolder } from '../tenure.ts'
import { lease, waitForOutput } from './wait-for-output.ts'

test.each(['tenure', 'its supervisor'] as const)(
  '%s kills the command when it continues after a stop of both processes for longer than the lease, even if it reads a late answer',
  async (who) => {
    const served = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(served.url).port))
    onTestFinished(() => proxy.stop())
    const on = scene(served.url)
    const first = on.work(['--ttl', '3s', '--store', `http://127.0.0.1:${proxy.port}`], ['--stubborn'])
    const { pid } = await on.wrote('begin', 1)
    // The answer to a renewal is in flight, and is read too late.
    proxy.set('hold', 'to-client')
    await vi.waitUntil(() => proxy.queuedBytes > 0, { timeout: 20_000, interval: 5 })
    const both = { tenure: first.child.pid ?? 0, 'its supervisor': first.supervisor() }
    for (const each of Object.values(both)) signal(each, 'SIGSTOP')
    const second = on.run([...lease, '--', 'sleep', '1000'])
    await waitForOutput(second, 'in term 2')
    expect(runs(pid)).toBe(true)
    proxy.set('pass')
    signal(both[who], 'SIGCONT')
    await vi.waitUntil(() => !runs(pid), { timeout: 10_000, interval: 5 })
    expect(on.lines().filter(({ what }) => what === 'SIGTERM')).toEqual([])
  },
)

test('tenure keeps its supervisor and starts the command when tenure was stopped while the supervisor started', async () => {
  const on = scene()
  const wrapper = on.work([])
  const supervisor = await vi.waitUntil(() => childrenOf(wrapper.child.pid ?? 0)[0], { timeout: 20_000, interval: 2 })
  wrapper.child.kill('SIGSTOP')
  // This is longer than tenure waits for an answer.
  await new Promise((resolve) => setTimeout(resolve, 5_500))
  wrapper.child.kill('SIGCONT')
  await on.wrote('begin', 1)
  expect(runs(supervisor)).toBe(true)
})
