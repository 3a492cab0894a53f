import { describe, expect, test } from 'vitest'
import { findViolations, survey, type Entry, type GuardLog, type ProcessLog } from './check-logs.ts'
import { clientGoEntries, type Order } from './client-go-entries.ts'
import { findTermViolations, successionsOf } from './lease-history.ts'

const quiet: GuardLog = { value: 0, accepted: [], refused: [] }
const elected = (term: number, at: number): Entry => ({ kind: 'elected', term, at })
const belief = (term: number, from: number, to = from): Entry => ({ kind: 'belief', term, from, to })
const lost = (term: number, at: number, reason = 'expired', clean = true): Entry => ({
  kind: 'lost',
  term,
  at,
  reason,
  clean,
})
const stopped: Entry = { kind: 'stopped', at: 1e9 }
const life = (pid: number, entries: Entry[], end = 'stopped'): ProcessLog => ({
  identity: `candidate-${pid}`,
  pid,
  end,
  entries: end === 'stopped' ? [...entries, stopped] : entries,
})
const leadership = (term: number, from: number, to: number) => [
  elected(term, from),
  belief(term, from),
  belief(term, to),
  lost(term, to + 1),
]
const write = (term: number, value: number) => ({ verb: 'write', term, value, pid: term }) as const

test('findViolations accepts leaders that follow one another, however close they are', () => {
  const lives = [
    life(1, leadership(1, 10, 20)),
    life(2, [...leadership(2, 20, 30), ...leadership(4, 41, 50)]),
    life(3, leadership(3, 31, 40)),
  ]
  expect(findViolations(lives, quiet)).toEqual([])
})

test('findViolations treats an answer that a pause delayed as true only at the time of its question', () => {
  const paused = life(1, [elected(1, 10), belief(1, 10), belief(1, 20, 900), lost(1, 901)])
  expect(findViolations([paused, life(2, leadership(2, 500, 600))], quiet)).toEqual([])
  // The first answer of a term may have been given at any time until it arrived, so it alone proves nothing.
  const late = life(2, [elected(2, 15), belief(2, 15, 100), lost(2, 101)])
  expect(findViolations([life(1, leadership(1, 10, 50)), late], quiet)).toEqual([])
})

test('findViolations accepts a killed leader without a reported loss', () => {
  expect(findViolations([life(1, [elected(1, 1), belief(1, 2)], 'killed')], quiet)).toEqual([])
})

test('findViolations reports only errors that the faults do not explain', () => {
  const lives = ['TIMEOUT', 'BACKEND_UNAVAILABLE'].map((code, index) => life(index, [{ kind: 'error', code, at: 1 }]))
  expect(findViolations(lives, quiet)).toEqual(['candidate-1 reported BACKEND_UNAVAILABLE'])
  expect(findViolations(lives, quiet, ['TIMEOUT', 'BACKEND_UNAVAILABLE'])).toEqual([])
})

describe('findViolations reports a violation', () => {
  const cases: {
    readonly what: string
    readonly lives: ProcessLog[]
    readonly guard?: GuardLog
    readonly finds: RegExp
  }[] = [
    {
      what: 'two leaders at the same time',
      lives: [life(1, leadership(1, 10, 2_000_020)), life(2, leadership(2, 20, 3_000_000))],
      finds: /candidate-1 in term 1 still led 2\.000 ms after candidate-2 in term 2 had started/,
    },
    {
      what: 'a leader within the term of another leader',
      lives: [life(1, leadership(1, 10, 100)), life(2, leadership(2, 40, 50)), life(3, leadership(3, 101, 110))],
      finds: /term 1 still led/,
    },
    {
      what: 'an overlap with a later term than the next one',
      lives: [
        life(1, leadership(1, 10, 100)),
        life(2, [elected(2, 200), lost(2, 201)]),
        life(3, leadership(3, 90, 110)),
      ],
      finds: /candidate-1 in term 1 still led .* candidate-3 in term 3/,
    },
    {
      what: 'terms out of order',
      lives: [life(1, leadership(2, 10, 20)), life(2, leadership(1, 30, 40))],
      finds: /still led/,
    },
    {
      what: 'a term with two holders',
      lives: [life(1, leadership(1, 10, 20)), life(2, leadership(1, 30, 40))],
      finds: /held by/,
    },
    {
      what: 'a term that the same process had before',
      lives: [life(1, [...leadership(2, 1, 2), ...leadership(1, 5, 6)])],
      finds: /after/,
    },
    {
      what: 'an election before the previous term was lost',
      lives: [life(1, [elected(1, 1), ...leadership(2, 2, 3)])],
      finds: /before term 1/,
    },
    {
      what: 'a loss without an election',
      lives: [life(1, [lost(1, 1)])],
      finds: /lost term 1 while its open term was none/,
    },
    { what: 'a stop without a loss', lives: [life(1, [elected(1, 1)])], finds: /without losing term 1/ },
    {
      what: 'a belief after the loss',
      lives: [life(1, [...leadership(1, 1, 5), belief(1, 9)])],
      finds: /believed in term 1/,
    },
    {
      what: 'a loss that was reported too early',
      lives: [life(1, [elected(1, 1), lost(1, 5, 'expired', false)])],
      finds: /had ended/,
    },
    {
      what: 'a stop that never finished',
      lives: [{ ...life(1, [], 'killed'), end: 'stopped' }],
      finds: /never reported/,
    },
    { what: 'a crash', lives: [life(1, [], '1 Error: oh')], finds: /ended: 1 Error: oh/ },
    {
      what: 'an error',
      lives: [life(1, [{ kind: 'error', code: 'RECORD_INVALID', at: 1 }])],
      finds: /RECORD_INVALID/,
    },
    {
      what: 'a lost update',
      lives: [],
      guard: { ...quiet, value: 1, accepted: [write(1, 1), write(2, 1)] },
      finds: /write 2 \(term 2\) set 1/,
    },
    {
      what: 'a counter with a wrong value',
      lives: [],
      guard: { ...quiet, value: 3, accepted: [write(1, 1)] },
      finds: /1 writes were accepted, but the counter is at 3/,
    },
    {
      what: 'a write of a former leader',
      lives: [],
      guard: { ...quiet, value: 2, accepted: [write(2, 1), write(1, 2)] },
      finds: /term 1 wrote after term 2/,
    },
    {
      what: 'a confirmed write that is missing',
      lives: [life(1, [{ kind: 'wrote', term: 1, value: 2, at: 1 }])],
      guard: { ...quiet, value: 1, accepted: [write(1, 1)] },
      finds: /confirmation for writing 2/,
    },
  ]
  test.each(cases)('findViolations reports $what', ({ lives, guard = quiet, finds }) => {
    expect(findViolations(lives, guard)).toContainEqual(expect.stringMatching(finds))
  })
})

test('handOversOf distinguishes handovers by how the previous leader ended', () => {
  const lives = [
    life(1, [elected(1, 1e6), belief(1, 2e6)], 'killed'),
    life(2, [elected(2, 3e6), belief(2, 3e6), lost(2, 4e6, 'released')]),
    life(3, [elected(3, 9e6), belief(3, 9e6), belief(3, 10e6), lost(3, 2_000e6)]),
    life(4, leadership(4, 1_600e6, 1_601e6)),
    life(5, leadership(5, 1_700e6, 1_701e6)),
  ]
  const guard = { ...quiet, refused: [write(3, 7), { verb: 'read', term: 3, pid: 3 } as const] }
  const pauses = [
    { pid: 3, from: 10.5e6, to: 1_990e6 },
    // A pause too short to end anything, one of a process that did not lead, and one of a leader that had already
    // ended.
    { pid: 4, from: 1_600.5e6, to: 1_650e6 },
    { pid: 9, from: 1_600.5e6, to: 9_000e6 },
    { pid: 4, from: 1_800e6, to: 9_000e6 },
  ]
  expect(survey(lives, guard, pauses, 1_000)).toEqual({
    terms: 5,
    byDeath: 1,
    byRelease: 1,
    byExpiry: 2,
    byPause: 1,
    fencedWrites: 1,
    longestGapMs: 1_590,
  })
})

describe('a client-go process', () => {
  const started = (transitions: number, monotonicMs: number) =>
    ({ event: 'started', transitions, monotonicMs }) as const
  const ended = (monotonicMs: number) => ({ event: 'stopped', monotonicMs }) as const
  const peer = (pid: number, events: Parameters<typeof clientGoEntries>[0], order: Order): ProcessLog => ({
    identity: `client-go-${pid}`,
    pid,
    end: order.end,
    entries: clientGoEntries(events, order),
  })

  test('a client-go process leads until its death, starting with term 0', () => {
    const killed = peer(1, [started(0, 1)], { end: 'killed', at: 5e6 })
    expect(findViolations([killed, life(2, leadership(1, 5e6, 6e6))], quiet)).toEqual([])
    const overlaps = findViolations([killed, life(2, leadership(1, 4e6, 6e6))], quiet)
    expect(overlaps).toEqual([expect.stringMatching(/client-go-1 in term 0 still led 1\.000 ms/)])
  })

  test('a client-go process leads until it reports that it stopped, and may lead again', () => {
    const lost = peer(1, [started(1, 1), ended(5), started(3, 9)], { end: 'killed', at: 10e6 })
    expect(findViolations([lost, life(2, leadership(2, 6e6, 7e6))], quiet)).toEqual([])
    expect(findViolations([lost, life(2, leadership(2, 4e6, 7e6))], quiet)).toEqual([
      expect.stringMatching(/term 1 still led/),
    ])
    expect(findViolations([lost, life(2, leadership(2, 8e6, 9.5e6))], quiet)).toEqual([
      expect.stringMatching(/term 2 still led/),
    ])
  })

  test('a client-go process counts as leading only until it is told to stop, because it reports its end after its release', () => {
    const told = peer(1, [started(1, 1), ended(5)], { end: 'stopped', at: 3e6 })
    expect(findViolations([told, life(2, leadership(2, 4e6, 7e6))], quiet)).toEqual([])
    expect(findViolations([told, life(2, leadership(2, 2e6, 7e6))], quiet)).toEqual([
      expect.stringMatching(/term 1 still led/),
    ])
    expect(survey([told, life(2, leadership(2, 4e6, 7e6))], quiet, [], 1)).toMatchObject({
      byRelease: 1,
      longestGapMs: 1,
    })
    // The process was elected while it was being stopped, so the duration of its leadership is zero.
    const late = peer(1, [started(1, 4), ended(5)], { end: 'stopped', at: 3e6 })
    expect(findViolations([late, life(2, leadership(2, 2e6, 7e6))], quiet)).toEqual([])
  })
})

describe('the history of a Lease', () => {
  const states = (...seen: readonly [term: number, holder: string][]) =>
    seen.map(([term, holder], index) => ({ term, holder, version: String(index) }))

  test('successionsOf shows which holder of a Lease followed which, and how', () => {
    const seen = states([0, 'a'], [0, 'a'], [0, ''], [1, 'b'], [2, 'a'], [2, 'a'])
    expect(successionsOf(seen)).toEqual([
      { from: 'a', to: 'b', released: true },
      { from: 'b', to: 'a', released: false },
    ])
    expect(findTermViolations(seen)).toEqual([])
  })

  test('findTermViolations reports terms that decrease, have two holders, or are reused', () => {
    expect(findTermViolations(states([2, 'a'], [1, 'b']))).toEqual([expect.stringMatching(/from term 2 to 1/)])
    expect(findTermViolations(states([2, 'a'], [2, 'b']))).toEqual([expect.stringMatching(/held by both a and b/)])
    expect(findTermViolations(states([2, 'a'], [2, ''], [2, 'a']))).toEqual([expect.stringMatching(/reused after/)])
  })
})
