import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { Elector } from '../../../tenure/src/engine/elector.ts'
import { jobStatus } from '../../../tenure/src/jobs/index.ts'
import { fileStore } from '../../../tenure/src/stores/file/index.ts'
import { scene, type Scene } from './scene.ts'
import { begun, expectRuns, expectEachOnce, quick } from './scheduled-runs.ts'

/** Leaves text in the record, as a leader would. */
async function checkpoint(on: Scene, text: string): Promise<void> {
  const store = fileStore({ directory: join(on.folder, 'leases') })
  const elector = new Elector({ store, election: 'jobs' })
  elector.start()
  await (await elector.waitForLeadership()).setCheckpoint(text)
  await elector.stop()
  await store.close?.()
}

const lastRun = (ms: number) => JSON.stringify({ lastRun: new Date(ms).toISOString() })

describe('--every', { timeout: 90_000 }, () => {
  test('--every does not repeat a run that was killed with its machine', async () => {
    const on = scene()
    const args = ['--ttl', '2s', '--every', '*/3 * * * * *']
    const first = on.work(args)
    await expectRuns(on, 1)
    first.child.kill('SIGKILL')
    on.work(args, quick)
    await expectRuns(on, 3)
    expectEachOnce(on)
  })

  test('--every continues after a failed run, and keeps leading in between', async () => {
    const on = scene()
    const { child, ended } = on.work(['--every', '* * * * * *'], ['--exit', '5'])
    await expectRuns(on, 3)
    expectEachOnce(on)
    expect(new Set(begun(on).map(({ term }) => term))).toEqual(new Set([1]))
    child.kill('SIGTERM')
    expect([0, 5, 143]).toContain(await ended)
  })

  test('--every ends a run that exceeds --max-runtime, continues with the next one, and records the results', async () => {
    const on = scene()
    const { output } = on.work(['--every', '*/3 * * * * *', '--max-runtime', '1s'])
    await expectRuns(on, 3)
    expectEachOnce(on)
    expect(output.error).toContain('the command exceeded --max-runtime 1s: it gets SIGTERM, then SIGKILL')
    const store = fileStore({ directory: join(on.folder, 'leases') })
    const record = await store.read('jobs', { signal: AbortSignal.timeout(10_000) })
    const runs = (record && jobStatus(record)?.runs) ?? []
    expect(runs.length).toBeGreaterThan(1)
    expect(runs[1]).toMatchObject({ result: 'timed-out', term: 1, error: 'the command was ended by SIGTERM' })
    await store.close?.()
  })

  test('--every reports that a run is still in progress when the next time comes', async () => {
    const on = scene()
    const { output } = on.work(['--every', '* * * * * *'], ['--exit', '0', '--after', '2500'])
    await vi.waitUntil(() => /the run of \S+ is still in progress at \S+/.test(output.error), { timeout: 20_000 })
  })

  const tenMinutesAgo = Date.now() - 600_000
  const pattern = `${new Date(tenMinutesAgo).getUTCMinutes()} * * * *`

  test('--every skips missed times by default', async () => {
    const on = scene()
    await checkpoint(on, lastRun(Date.now() - 7_200_000))
    const { output } = on.work(['--every', pattern], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(output.error).toContain('was missed and is skipped')
    expect(begun(on)).toEqual([])
  })

  test('--every makes up for missed times with one run if --missed is run-once', async () => {
    const on = scene()
    await checkpoint(on, lastRun(Date.now() - 7_200_000))
    const { output } = on.work(['--every', pattern, '--missed', 'run-once'], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(begun(on)).toHaveLength(1)
  })

  test('--every starts with the next time if there was no run before', async () => {
    const on = scene()
    const { output } = on.work(['--every', pattern, '--missed', 'run-once'], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(begun(on)).toEqual([])
  })

  test('--every does not change the record of another program', async () => {
    const on = scene()
    await checkpoint(on, 'my own notes')
    const { ended, output } = on.work(['--every', pattern], quick)
    expect(await ended).toBe(1)
    expect(output.error).toContain('another program')
  })
})

describe('--at-most-once-per', () => {
  test('--at-most-once-per runs the command on one of several machines that are started together, and exits on all', async () => {
    const on = scene()
    const all = Array.from({ length: 4 }, () => on.work(['--at-most-once-per', '1h'], quick))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual([0, 0, 0, 0])
    expect(begun(on)).toHaveLength(1)
    expect(all.filter(({ output }) => output.error.includes('nothing to do'))).toHaveLength(3)
  })

  test('--at-most-once-per runs the command once for machines that are started together, even if it takes longer than the interval', async () => {
    const on = scene()
    const slow = ['--exit', '0', '--after', '2000']
    const all = Array.from({ length: 3 }, () => on.work(['--at-most-once-per', '1s'], slow))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual([0, 0, 0])
    expect(begun(on)).toHaveLength(1)
  })

  test('--at-most-once-per runs the command again after the interval, and exits with its code', async () => {
    const on = scene()
    await checkpoint(on, lastRun(Date.now() - 61_000))
    expect(await on.work(['--at-most-once-per', '1m'], ['--exit', '6']).ended).toBe(6)
    expect(await on.work(['--at-most-once-per', '1m'], ['--exit', '6']).ended).toBe(0)
    expect(begun(on)).toHaveLength(1)
  })

  test('--at-most-once-per ends a run that exceeds --max-runtime, and exits with 124', async () => {
    const { ended, output } = scene().work(['--at-most-once-per', '1h', '--max-runtime', '1s'])
    expect(await ended).toBe(124)
    expect(output.error).toContain('--max-runtime 1s')
  })

  test('--at-most-once-per does not run the command when the last run is in the future of this clock', async () => {
    const on = scene()
    await checkpoint(on, lastRun(Date.now() + 600_000))
    expect(await on.work(['--at-most-once-per', '1m'], quick).ended).toBe(0)
    expect(begun(on)).toEqual([])
  })
})
