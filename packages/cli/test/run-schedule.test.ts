import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { Elector } from '../../tenure/src/elector.ts'
import { fileStore } from '../../tenure/src/stores/file.ts'
import { faketimeEnvironment, findFaketime } from '../../../test/chaos/faketime.ts'
import { Schedule } from '../src/run/schedule.ts'
import { scene, type Line, type Scene } from './run/scene.ts'

const at = (text: string) => Date.parse(text)
const schedule = (pattern: string, more: Partial<ConstructorParameters<typeof Schedule>[0]> = {}) =>
  new Schedule({ pattern, timezone: 'UTC', missed: 'skip', toleranceMs: 60_000, ...more })

describe('the next slot', () => {
  const five = schedule('*/5 * * * *')

  test('is the one after the last, and waits for its time', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:01Z'))).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 240_000,
      missedMs: undefined,
    })
  })

  test('is due at its very millisecond, and not before', () => {
    const lastMs = at('2026-01-01T12:00Z')
    expect(five.next(lastMs, at('2026-01-01T12:05Z') - 1)).toMatchObject({ waitMs: 1 })
    expect(five.next(lastMs, at('2026-01-01T12:05Z'))).toMatchObject({ slotMs: at('2026-01-01T12:05Z'), waitMs: 0 })
  })

  test('is never one that was run, however far behind this clock is', () => {
    for (const minutes of [-600, -5, -1, 0, 1]) {
      const slot = five.next(at('2026-01-01T12:05Z'), at('2026-01-01T12:05Z') + minutes * 60_000)
      expect(slot).toMatchObject({ slotMs: at('2026-01-01T12:10Z'), waitMs: (5 - minutes) * 60_000 })
    }
  })

  test('was not missed if a take-over came in between', () => {
    expect(five.next(at('2026-01-01T12:00Z'), at('2026-01-01T12:05:59Z'))).toMatchObject({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 0,
    })
  })

  test('leaves out what was missed, or makes one run of all of it', () => {
    const args = [at('2026-01-01T09:00Z'), at('2026-01-01T12:02Z')] as const
    expect(five.next(...args)).toEqual({
      slotMs: at('2026-01-01T12:05Z'),
      waitMs: 180_000,
      missedMs: at('2026-01-01T12:00Z'),
    })
    expect(schedule('*/5 * * * *', { missed: 'run-once' }).next(...args)).toMatchObject({
      slotMs: at('2026-01-01T12:00Z'),
      waitMs: 0,
    })
  })

  test('follows a time zone over its summer time', () => {
    const zurich = schedule('0 3 * * *', { timezone: 'Europe/Zurich' })
    const slots = [at('2026-03-27T12:00Z')]
    while (slots.length < 5) slots.push(zurich.next(slots.at(-1) ?? 0, slots.at(-1) ?? 0)?.slotMs ?? NaN)
    expect(slots.slice(1).map((slot) => new Date(slot).toISOString())).toEqual([
      '2026-03-28T02:00:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T01:00:00.000Z',
      '2026-03-31T01:00:00.000Z',
    ])
  })
})

const begun = (on: Scene): Line[] => on.lines().filter(({ what }) => what === 'begin')

async function expectRuns(on: Scene, count: number): Promise<void> {
  await vi.waitUntil(() => begun(on).length >= count, { timeout: 25_000, interval: 20 })
}

function expectEachOnce(on: Scene): void {
  const slots = begun(on).map(({ slot }) => slot)
  expect(slots).toEqual([...new Set(slots)].sort())
}

/** Leaves a text in the record, as a leader does. */
async function carry(on: Scene, text: string): Promise<void> {
  const store = fileStore({ directory: join(on.folder, 'leases') })
  const elector = new Elector({ store, election: 'jobs' })
  elector.start()
  await (await elector.waitForLeadership()).setCarry(text)
  await elector.stop()
  await store.close?.()
}

const lastRun = (ms: number) => JSON.stringify({ lastRun: new Date(ms).toISOString() })
const quick = ['--exit', '0']

describe('--every', { timeout: 90_000 }, () => {
  const faketime = findFaketime()
  const ahead = (on: Scene, name: string, offset: string) => {
    const file = join(on.folder, name)
    writeFileSync(file, `${offset}\n`)
    return { env: faketimeEnvironment(faketime ?? '', file) }
  }

  test.skipIf(faketime === undefined)('runs each slot once, on machines whose clocks are seconds apart', async () => {
    const on = scene()
    const args = ['--ttl', '2s', '--every', '*/2 * * * * *']
    const fast = on.work(args, quick, ahead(on, 'fast', '+3'))
    await expectRuns(on, 2)
    const slow = on.work(args, quick, ahead(on, 'slow', '-1'))
    await vi.waitUntil(() => slow.output.error.includes('waits'), { timeout: 20_000 })
    fast.child.kill('SIGTERM')
    await fast.ended
    const before = begun(on).length
    // It waits until its own clock has come to where the other one was.
    await expectRuns(on, before + 2)
    on.work(args, quick, ahead(on, 'third', '+2'))
    slow.child.kill('SIGKILL')
    await expectRuns(on, before + 5)
    expectEachOnce(on)
  })

  test('does not run a slot again whose run was killed with its machine', async () => {
    const on = scene()
    const args = ['--ttl', '2s', '--every', '*/3 * * * * *']
    const first = on.work(args)
    await expectRuns(on, 1)
    first.child.kill('SIGKILL')
    on.work(args, quick)
    await expectRuns(on, 3)
    expectEachOnce(on)
  })

  test('goes on after a run that failed, and leads in between', async () => {
    const on = scene()
    const { child, ended } = on.work(['--every', '* * * * * *'], ['--exit', '5'])
    await expectRuns(on, 3)
    expectEachOnce(on)
    expect(new Set(begun(on).map(({ term }) => term))).toEqual(new Set([1]))
    child.kill('SIGTERM')
    expect([0, 5, 143]).toContain(await ended)
  })

  const tenMinutesAgo = Date.now() - 600_000
  const pattern = `${new Date(tenMinutesAgo).getUTCMinutes()} * * * *`

  test('leaves out what was missed', async () => {
    const on = scene()
    await carry(on, lastRun(Date.now() - 7_200_000))
    const { output } = on.work(['--every', pattern], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(output.error).toContain('was missed, and is left out')
    expect(begun(on)).toEqual([])
  })

  test('catches up with one run, if so chosen', async () => {
    const on = scene()
    await carry(on, lastRun(Date.now() - 7_200_000))
    const { output } = on.work(['--every', pattern, '--missed', 'run-once'], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(begun(on)).toHaveLength(1)
  })

  test('begins with what comes next when there was no run before', async () => {
    const on = scene()
    const { output } = on.work(['--every', pattern, '--missed', 'run-once'], quick)
    await vi.waitUntil(() => output.error.includes('the next run is at'), { timeout: 20_000 })
    expect(begun(on)).toEqual([])
  })

  test('does not touch the record of another program', async () => {
    const on = scene()
    await carry(on, 'my own notes')
    const { ended, output } = on.work(['--every', pattern], quick)
    expect(await ended).toBe(1)
    expect(output.error).toContain('another program')
  })
})

describe('--at-most-once-per', () => {
  test('runs it on one of many machines that are told to at once, and ends on all', async () => {
    const on = scene()
    const all = Array.from({ length: 4 }, () => on.work(['--at-most-once-per', '1h'], quick))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual([0, 0, 0, 0])
    expect(begun(on)).toHaveLength(1)
    expect(all.filter(({ output }) => output.error.includes('nothing to do'))).toHaveLength(3)
  })

  test('runs it once for all that were told to at once, also if it takes longer than that time', async () => {
    const on = scene()
    const slow = ['--exit', '0', '--after', '2000']
    const all = Array.from({ length: 3 }, () => on.work(['--at-most-once-per', '1s'], slow))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual([0, 0, 0])
    expect(begun(on)).toHaveLength(1)
  })

  test('runs it again when the time has passed, and ends with its code', async () => {
    const on = scene()
    await carry(on, lastRun(Date.now() - 61_000))
    expect(await on.work(['--at-most-once-per', '1m'], ['--exit', '6']).ended).toBe(6)
    expect(await on.work(['--at-most-once-per', '1m'], ['--exit', '6']).ended).toBe(0)
    expect(begun(on)).toHaveLength(1)
  })

  test('does not run it if the last run lies ahead of this clock', async () => {
    const on = scene()
    await carry(on, lastRun(Date.now() + 600_000))
    expect(await on.work(['--at-most-once-per', '1m'], quick).ended).toBe(0)
    expect(begun(on)).toEqual([])
  })
})
