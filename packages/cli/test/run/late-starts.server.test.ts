import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test, vi } from 'vitest'
import { faultyStart, type FaultyStart } from './faulty-start.ts'
import { expectNoOverlap, scene, signal, stateOf, type Scene, type Wrapper } from './scene.ts'
import { serve, temporaryFolder } from '../tenure.ts'
import { lease, waitForOutput } from './wait-for-output.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'

async function stopped({ child }: Wrapper): Promise<void> {
  await vi.waitUntil(() => stateOf(child.pid ?? 0) === 'T', { timeout: 20_000, interval: 10 })
}

describeWithPrograms([programs.cc], 'a fleet whose leader was stopped for longer than its lease', () => {
  const points = `--import=${pathToFileURL(join(import.meta.dirname, './stop-at.mjs')).href}`
  const stopAt = (point: string, start: FaultyStart) => ({
    env: { ...start.env, STOP_AT: point, NODE_OPTIONS: points },
  })
  const begun = (on: Scene) => on.lines().filter(({ what }) => what === 'begin')

  test.each([
    ['only the next leader runs the job when the first was stopped right after its election', 'elected', [2]],
    ['only the next leader runs the job when the first was stopped before it recorded the run', 'decides', [2]],
    ['nobody runs the job when the first leader was stopped after it recorded the run', 'noted', []],
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

  test.each(['decides', 'noted'])(
    'a leader that was stopped at the point "%s" does not repeat a scheduled time',
    async (point) => {
      const on = scene()
      const args = [...lease, '--every', '* * * * * *']
      const start = faultyStart()
      const first = on.work(args, ['--exit', '0'], stopAt(point, start))
      await stopped(first)
      const second = on.work([...args, '--identity', 'second'], ['--exit', '0'])
      const more = (count: number) => vi.waitUntil(() => begun(on).length >= count, { timeout: 20_000 })
      await more(1)
      first.child.kill('SIGCONT')
      await waitForOutput(first, 'second leads')
      await more(begun(on).length + 2)
      expect(second.isOver() || first.isOver()).toBe(false)
      expect(start.executed()).toEqual([])
      const slots = begun(on).map(({ slot }) => slot)
      expect(slots).toEqual([...new Set(slots)].sort())
      expect(begun(on).every(({ term }) => term === 2)).toBe(true)
    },
  )
})

describeWithPrograms([programs.cc], 'an order to start', () => {
  test('the supervisor starts nothing when it reads an order after its deadline', async () => {
    const on = scene((await serve(temporaryFolder())).url)
    const start = faultyStart()
    const holder = on.work([...lease, '--identity', 'holder'])
    await on.wrote('begin', 1)
    const first = on.work(lease, [], { env: start.env })
    await waitForOutput(first, 'holder leads')
    const supervisor = first.supervisor()
    signal(supervisor, 'SIGSTOP')
    holder.child.kill('SIGTERM')
    await waitForOutput(first, 'in term 2')
    // The test cannot observe that the order was sent, so wait long enough.
    await new Promise((resolve) => setTimeout(resolve, 500))
    first.child.kill('SIGSTOP')
    on.work([...lease, '--identity', 'second'])
    await on.wrote('begin', 3)
    signal(supervisor, 'SIGCONT')
    await new Promise((resolve) => setTimeout(resolve, 500))
    first.child.kill('SIGCONT')
    await waitForOutput(first, 'second leads')
    expect(start.executed()).toEqual([])
    expect(expectNoOverlap(on.lines())).toEqual([1, 3])
  })
})
