import { expect, test } from 'vitest'
import { checkRuns, noteRun, type RunLine, type Runs } from './check-runs.ts'

const line = (event: RunLine['event'], slotMs: number, at: number, by = 'a', term = 1): RunLine => ({
  event,
  slotMs,
  at,
  by,
  term,
  job: 'sync',
})
const check = (lines: RunLine[], more: Partial<Runs> = {}) =>
  checkRuns({ lines, jobs: ['sync'], slots: [1_000, 2_000], noted: new Map(), ...more })

const sound = [line('begin', 1_000, 1), line('works', 1_000, 2), line('end', 1_000, 3), line('begin', 2_000, 4, 'b', 2)]

test('check accepts runs that are in order', () => {
  expect(check(sound)).toEqual({ violations: [], ran: 2, lostBeforeBegin: 0, lostInTheMiddle: 1 })
})

test('check reports a slot that ran twice, was skipped, or overlapped the next one', () => {
  expect(check([...sound, line('begin', 1_000, 9, 'c', 3)]).violations).toEqual(['sync 1000 ran 2 times: a, c'])
  expect(check(sound.slice(0, 3)).violations).toEqual(['sync 2000 was skipped'])
  expect(check([...sound, line('works', 1_000, 5)]).violations).toEqual([
    'sync 1000 was still running when 2000 had started',
  ])
})

test('check counts a slot that was recorded and never started, and does not report it as skipped', () => {
  const noted = new Map<string, string>()
  noteRun(noted, 'sync', { scheduledAt: new Date(2_000), begunAt: new Date(2_001), by: 'b' })
  expect(check(sound.slice(0, 3), { noted })).toMatchObject({ violations: [], lostBeforeBegin: 1 })
  expect(check(sound.slice(0, 3), { noted, victims: new Set('b') })).toMatchObject({ violations: [] })
  expect(check(sound.slice(0, 3), { noted, victims: new Set('a') }).violations).toEqual([
    'sync 2000 was recorded by b, which did not run it',
  ])
})

test('check reports a slot as skipped when it was recorded as missed', () => {
  const noted = new Map<string, string>()
  noteRun(noted, 'sync', { scheduledAt: new Date(2_000), result: 'missed' })
  expect(check(sound.slice(0, 3), { noted }).violations).toEqual(['sync 2000 was skipped'])
})
