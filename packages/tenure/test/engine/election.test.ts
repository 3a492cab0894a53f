import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { step } from '../../src/engine/election.ts'
import {
  deadlineOf,
  initialState,
  leadsAt,
  nextWakeMs,
  type Effect,
  type ElectionState,
  type Input,
  type ElectionSettings,
} from '../../src/engine/election-state.ts'
import type { LeaseRecord, Outcome } from '../../src/engine/lease-store.ts'
import { Random } from '../../../testing/src/simulation/random.ts'
import { noPreference } from '../../src/engine/preference.ts'
import { resolveTimings } from '../../src/engine/timings.ts'

const settings: ElectionSettings = {
  ...resolveTimings({}),
  ...noPreference,
  election: 'e',
  identity: 'a',
  metadata: {},
  drainTimeoutMs: 30_000,
  releaseOnStop: true,
  canWatch: true,
  readsFirst: false,
  terms: true,
  until: 'stopped',
  waitMs: 0,
}

const record = (change: Partial<LeaseRecord>): LeaseRecord => ({
  election: 'e',
  holder: 'b',
  attempt: 'other.1',
  term: 1,
  leaseDurationMs: 15_000,
  acquiredAt: 0,
  renewedAt: 0,
  released: false,
  metadata: {},
  checkpoint: '',
  version: 'v1',
  ...change,
})

const at = (nowMs: number) => ({ nowMs, sleptMs: 0 })

type WithoutChance<T> = T extends unknown ? Omit<T, 'fresh' | 'chance' | 'ask' | 'wallMs'> : never
type Given = WithoutChance<Input>

/** Feeds inputs to the algorithm and remembers its last call. */
function drive(state: ElectionState = initialState(settings), chance = () => 0.5) {
  let current = state
  let names = 0
  let lastCall: Extract<Effect, { type: 'call' }>['call'] | undefined
  return {
    take(given: Given): Effect[] {
      deepFreeze(given)
      const input = {
        ...given,
        // Number only the ids that are used, so that a test can name the attempts that it expects.
        fresh: () => `me.${++names}`,
        chance,
        ask: () => ({ eligible: true, priority: 'normal' as const, progressedAtMs: -Infinity }),
        wallMs: () => expect.unreachable('an elector that waits read the wall clock'),
      }
      const { state: next, effects } = step(current, input)
      current = deepFreeze(next)
      for (const effect of effects) if (effect.type === 'call') lastCall = effect.call
      // The driver sends this input too, after all listeners of the end have run.
      const ended = effects.some(({ type }) => type === 'ended')
      return ended
        ? [...effects, ...this.take({ type: 'end-told', nowMs: given.nowMs, sleptMs: given.sleptMs })]
        : effects
    },
    get state() {
      return current
    },
    get call() {
      if (!lastCall) throw new Error('No call was made.')
      return lastCall
    },
  }
}

describe('the election algorithm', () => {
  test('a grant counts from the first transmission of its attempt, however often the attempt is repeated', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { attempt: 'me.1' } })
    d.take({ type: 'failed', call: d.call.id, error: new Error('lost'), nowMs: 5_000, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'read' })
    d.take({ type: 'found', call: d.call.id, record: undefined, nowMs: 5_100, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { attempt: 'me.1' } })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 15_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 5_200, sleptMs: 0 })
    expect(deadlineOf(d.state)).toBe(10_000)
  })

  test('a leader of term 0 is announced, because other programs that share a record start with term 0', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({ term: 0, attempt: '' }), highestTerm: 0 }
    const effects = d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    expect(effects).toContainEqual({ type: 'new-leader', record: outcome.record })
  })

  test('a read does not make a standby forget when the store advised it to try', () => {
    const d = drive(initialState({ ...settings, canWatch: false }), () => 0)
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1, retryAfterMs: 3_000 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    for (const nowMs of [1_500, 2_600]) {
      d.take({ type: 'wake', nowMs, sleptMs: 0 })
      expect(d.call).toMatchObject({ verb: 'read' })
      d.take({ type: 'found', call: d.call.id, record: record({}), nowMs, sleptMs: 0 })
    }
    d.take({ type: 'wake', nowMs: 3_010, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire' })
  })

  test('a candidate requests a released lease again as soon as the store would grant it', () => {
    const d = drive(initialState(settings), () => 0)
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const released = record({ released: true, successor: 'a' })
    const outcome: Outcome = { ok: false, record: released, highestTerm: 1, retryAfterMs: 3_000 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    const refused = d.call.id
    d.take({ type: 'wake', nowMs: 3_009, sleptMs: 0 })
    expect(d.call.id).toBe(refused)
    d.take({ type: 'wake', nowMs: 3_010, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire' })
    expect(d.call.id).not.toBe(refused)
  })

  test('a read that shows a newer version voids advice from the store about the older one', () => {
    const d = drive(initialState({ ...settings, canWatch: false }), () => 0)
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1, retryAfterMs: 3_000 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 1_500, sleptMs: 0 })
    d.take({ type: 'found', call: d.call.id, record: record({ version: 'v2' }), nowMs: 1_500, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 3_010, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'read' })
  })

  test('an elector that tries once acquires a lease that has no record, on a store that reads first', () => {
    const d = drive(initialState({ ...settings, readsFirst: true, until: 'refused' }))
    d.take({ type: 'start', ...at(0) })
    expect(d.call).toMatchObject({ verb: 'read' })
    d.take({ type: 'found', call: d.call.id, record: undefined, ...at(10) })
    expect(d.call).toMatchObject({ verb: 'acquire' })
  })

  test('an elector that tries once gives up when its first read shows another leader', () => {
    const d = drive(initialState({ ...settings, readsFirst: true, until: 'refused' }))
    d.take({ type: 'start', ...at(0) })
    d.take({ type: 'found', call: d.call.id, record: record({}), ...at(10) })
    expect(d.state).toMatchObject({ phase: 'stopped', gaveUp: { record: { holder: 'b' } } })
  })

  test('a candidate waits for one lease after a record of term 0 was deleted', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({ term: 0, attempt: '' }), highestTerm: 0 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    const before = d.call.id
    d.take({ type: 'observed', record: undefined, nowMs: 20, sleptMs: 0 })
    expect(d.call.id).toBe(before)
    d.take({ type: 'wake', nowMs: 16_000, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { expiredVersion: '', afterTerm: 0 } })
  })

  test('a candidate reads the store soon when a watch shows a term below the highest term', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({ term: 7 }), highestTerm: 7 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ term: 1, version: 'recreated' }), nowMs: 20, sleptMs: 0 })
    const wakeMs = nextWakeMs(d.state) ?? Infinity
    expect(wakeMs).toBeGreaterThanOrEqual(20 + settings.retryIntervalMs / 2)
    expect(wakeMs).toBeLessThanOrEqual(20 + settings.retryIntervalMs * 1.5)
    d.take({ type: 'wake', nowMs: wakeMs, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'read' })
  })

  test('watches that keep ending do not postpone the next read', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    const { retryIntervalMs } = settings
    let nowMs = 10
    // A watch that ends as soon as it is opened, as happens when permission to watch is missing.
    for (; d.call.verb !== 'read'; nowMs += 100) {
      d.take({ type: 'wake', nowMs, sleptMs: 0 })
      d.take({ type: 'watch-ended', nowMs, sleptMs: 0 })
    }
    expect(nowMs).toBeLessThanOrEqual(10 + 1.5 * retryIntervalMs + 200)
  })

  test('a candidate creates a new attempt after a refusal', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({ released: true }), highestTerm: 1 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { attempt: 'me.2', afterTerm: 1 } })
  })

  test('a grant at or below a term that was already observed is never used (D7)', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ term: 7 }), nowMs: 1, sleptMs: 0 })
    const outcome: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1', term: 7 }), validForMs: 15_000 }
    const effects = d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 2, sleptMs: 0 })
    expect(effects.map(({ type }) => type)).toContain('error')
    expect(d.state.phase).toBe('standby')
  })

  test('a candidate requests a term above every term that was granted to its own earlier attempt', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ holder: 'a', attempt: 'me.1', term: 1 }), nowMs: 5, sleptMs: 0 })
    d.take({ type: 'failed', call: d.call.id, error: new Error('lost'), nowMs: 5_000, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 9_000, sleptMs: 0 })
    d.take({ type: 'found', call: d.call.id, record: undefined, nowMs: 9_001, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 60_000, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { attempt: 'me.2', afterTerm: 1 } })
  })

  test('a candidate waits for the last observed lease duration after a record was deleted, whichever call showed the record', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 15_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 0, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 5_000, sleptMs: 0 })
    const longer = record({ term: 2, version: 'v2', leaseDurationMs: 60_000 })
    d.take({
      type: 'answer',
      call: d.call.id,
      outcome: { ok: false, record: longer, highestTerm: 2 },
      nowMs: 5_000,
      sleptMs: 0,
    })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { afterTerm: 2 } })
    d.take({ type: 'answer', call: d.call.id, outcome: { ok: false, highestTerm: 2 }, nowMs: 5_000, sleptMs: 0 })
    for (let nowMs = 6_000; nowMs < 65_000; nowMs += 1_000) {
      d.take({ type: 'wake', nowMs, sleptMs: 0 })
      if (d.state.flight) d.take({ type: 'found', call: d.call.id, record: undefined, nowMs, sleptMs: 0 })
      expect(d.call.verb === 'acquire' && d.call.id > 3 ? nowMs : 0).toBe(0)
    }
    d.take({ type: 'wake', nowMs: 65_000 + 75, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { expiredVersion: '' } })
  })

  test('a candidate waits again when a refusal shows another grant whose record is also gone', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    d.take({ type: 'answer', call: d.call.id, outcome: { ok: false, highestTerm: 1 }, nowMs: 0, sleptMs: 0 })
    /** Lets time pass, with every read finding no record, until the next acquire. */
    const untilNextAcquire = (after: number): void => {
      while (d.call.id <= after || d.call.verb !== 'acquire') {
        const at = { nowMs: d.state.nowMs, sleptMs: 0 }
        if (d.state.flight) d.take({ type: 'found', call: d.call.id, record: undefined, ...at })
        else d.take({ type: 'wake', nowMs: nextWakeMs(d.state) ?? 0, sleptMs: 0 })
      }
    }
    untilNextAcquire(d.call.id)
    const triedAtMs = d.state.nowMs
    expect(triedAtMs).toBeGreaterThanOrEqual(15_000)
    // Another candidate led in the meantime, and its record is also gone.
    const refused: Outcome = { ok: false, highestTerm: 2 }
    d.take({ type: 'answer', call: d.call.id, outcome: refused, nowMs: triedAtMs, sleptMs: 0 })
    untilNextAcquire(d.call.id)
    expect(d.state.nowMs).toBeGreaterThanOrEqual(triedAtMs + 15_000)
  })

  test('a candidate reads at once when a watch shows that an acquire with an unknown outcome was granted', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    d.take({ type: 'failed', call: d.call.id, error: new Error('reset'), nowMs: 10, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ holder: 'a', attempt: 'me.1' }), nowMs: 20, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'read' })
  })

  test('one failed renewal does not end leadership when the store granted less than requested', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 6_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 0, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 2_000, sleptMs: 0 })
    d.take({ type: 'failed', call: d.call.id, error: new Error('reset'), nowMs: 2_000, sleptMs: 0 })
    expect(nextWakeMs(d.state)).toBe(2_800)
    d.take({ type: 'wake', nowMs: 2_800, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'renew' })
  })

  test('no renewal is sent when the answer to a renewal shows that the lease has already ended', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const mine = record({ holder: 'a', attempt: 'me.1' })
    d.take({ type: 'answer', call: d.call.id, outcome: { ok: true, record: mine, validForMs: 15_000 }, ...at(0) })
    d.take({ type: 'wake', ...at(5_000) })
    expect(d.call).toMatchObject({ verb: 'renew' })
    const renewed = { ok: true, record: { ...mine, version: 'v2' }, validForMs: 1_000 } as const
    const effects = d.take({ type: 'answer', call: d.call.id, outcome: renewed, ...at(7_000) })
    expect(effects).toContainEqual({ type: 'ended', reason: 'expired' })
    expect(effects).not.toContainEqual(expect.objectContaining({ call: expect.objectContaining({ verb: 'renew' }) }))
  })

  test('a read that hangs does not keep a candidate from acquiring a free lease', () => {
    const d = drive()
    d.take({ type: 'start', ...at(0) })
    const held = record({ version: 'v1' })
    d.take({ type: 'answer', call: d.call.id, outcome: { ok: false, record: held, highestTerm: 1 }, ...at(0) })
    // The lease was renewed repeatedly, so there was no reason to campaign. Now the candidate reads the store itself.
    let nowMs = 0
    for (let version = 2; d.call.verb !== 'read'; version++) {
      nowMs += 5_000
      d.take({ type: 'observed', record: record({ version: `v${version}` }), ...at(nowMs) })
      d.take({ type: 'wake', ...at(nowMs) })
    }
    const freed = record({ version: 'free', released: true })
    expect(d.take({ type: 'observed', record: freed, ...at(nowMs + 100) })).toContainEqual({ type: 'cancel' })
    d.take({ type: 'wake', ...at(nowMs + 110) })
    expect(d.call).toMatchObject({ verb: 'acquire' })
  })

  test('a candidate without a watch keeps polling during its cooldown after a step-down', () => {
    const d = drive(initialState({ ...settings, canWatch: false }))
    d.take({ type: 'start', ...at(0) })
    const held = record({ version: 'v1' })
    d.take({ type: 'answer', call: d.call.id, outcome: { ok: false, record: held, highestTerm: 1 }, ...at(0) })
    d.take({ type: 'step-down', cooldownMs: 600_000, ...at(1) })
    d.take({ type: 'wake', ...at(3_000) })
    expect(d.call).toMatchObject({ verb: 'read' })
    const next = record({ version: 'v9', term: 2, holder: 'c', attempt: 'third.1' })
    expect(d.take({ type: 'found', call: d.call.id, record: next, ...at(3_001) })).toContainEqual({
      type: 'new-leader',
      record: next,
    })
    d.take({ type: 'wake', ...at(6_100) })
    const free = { ...next, released: true, version: 'v10' }
    const idle = d.take({ type: 'found', call: d.call.id, record: free, ...at(6_101) })
    expect(idle, 'it neither campaigns nor polls again at once').toEqual([])
    d.take({ type: 'wake', ...at(9_200) })
    expect(d.call).toMatchObject({ verb: 'read' })
  })

  test('a candidate reads at once when a release arrives before the refusal of its acquire', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const held = record({ version: 'v1' })
    d.take({
      type: 'answer',
      call: d.call.id,
      outcome: { ok: false, record: held, highestTerm: 1 },
      nowMs: 0,
      sleptMs: 0,
    })
    d.take({ type: 'observed', record: record({ version: 'v2', released: true }), nowMs: 1_000, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 1_010, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire' })
    // Another candidate wins and releases, and the watch shows this before the refusal arrives.
    const winner = record({ version: 'v3', term: 2, attempt: 'third.1' })
    d.take({ type: 'observed', record: winner, nowMs: 1_011, sleptMs: 0 })
    d.take({ type: 'observed', record: { ...winner, released: true }, nowMs: 1_012, sleptMs: 0 })
    d.take({
      type: 'answer',
      call: d.call.id,
      outcome: { ok: false, record: winner, highestTerm: 2 },
      nowMs: 1_013,
      sleptMs: 0,
    })
    expect(d.call).toMatchObject({ verb: 'read' })
  })

  test('a checkpoint that arrives after leadership has ended is dropped', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 15_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 0, sleptMs: 0 })
    d.take({ type: 'checkpoint', text: 'late', nowMs: 10_000, sleptMs: 0 })
    expect(d.state.checkpoint).toBeUndefined()
  })

  test('a flood of replayed versions delays a takeover by little more than a lease', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const current = record({ version: 'current' })
    d.take({
      type: 'answer',
      call: d.call.id,
      outcome: { ok: false, record: current, highestTerm: 1 },
      nowMs: 0,
      sleptMs: 0,
    })
    let nowMs = 0
    while (d.call.verb !== 'acquire' || d.call.id === 1) {
      nowMs += 100
      d.take({ type: 'observed', record: record({ version: `old ${(nowMs / 100) % 50}` }), nowMs, sleptMs: 0 })
      if (d.state.flight && d.call.verb === 'read') {
        d.take({ type: 'found', call: d.call.id, record: current, nowMs, sleptMs: 0 })
      }
      expect(nowMs).toBeLessThan(61_000)
    }
    expect(d.call).toMatchObject({ claim: { expiredVersion: 'current' } })
  })

  test('a leader renews sooner when the store grants less than requested', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 3_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 0, sleptMs: 0 })
    expect([nextWakeMs(d.state), deadlineOf(d.state)]).toEqual([1_000, 2_000])
  })

  test('a leader renews at once after a sleep that used up the time until the next renewal', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 15_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, nowMs: 0, sleptMs: 0 })
    d.take({ type: 'wake', nowMs: 100, sleptMs: 6_000 })
    expect(d.call).toMatchObject({ verb: 'renew' })
  })

  test.each([
    ['refusing an acquire', { ok: false, record: record({ released: true }), highestTerm: 1 }],
    [
      'refusing a release of an abandoned attempt',
      { ok: false, record: record({ holder: 'a', attempt: 'me.1' }), highestTerm: 1 },
    ],
    [
      'answering that a release is done without releasing the lease',
      { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 1 },
    ],
    ['refusing an acquire of a missing record', { ok: false, highestTerm: 1, retryAfterMs: 0 }],
  ] satisfies [string, Outcome][])('a candidate does not flood a store that keeps %s', (_what, outcome) => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    let calls = 0
    for (; d.state.flight && calls < 50; calls += 1) {
      d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 10, sleptMs: 0 })
    }
    expect(calls).toBeLessThan(10)
    expect(nextWakeMs(d.state)).toBeGreaterThanOrEqual(10 + 1_000)
  })

  test('a candidate does not flood a store that keeps answering that the lease has just expired', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1, retryAfterMs: 0 }
    let calls = 0
    for (let nowMs = 0; nowMs < 10_000; nowMs = nextWakeMs(d.state) ?? Infinity) {
      d.take({ type: 'wake', nowMs, sleptMs: 0 })
      if (!d.state.flight) continue
      calls += 1
      d.take({ type: 'answer', call: d.call.id, outcome, nowMs, sleptMs: 0 })
    }
    expect(calls).toBeLessThan(20)
  })

  test('a takeover uses exactly the version that was observed for the whole duration', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({ version: 'v1' }), highestTerm: 1 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 0, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ version: 'v2' }), nowMs: 5_000, sleptMs: 0 })
    // Replays of known versions. Neither restarts the timer (E5).
    d.take({ type: 'observed', record: record({ version: 'v1' }), nowMs: 9_000, sleptMs: 0 })
    d.take({ type: 'observed', record: record({ version: 'v2' }), nowMs: 9_500, sleptMs: 0 })
    const wakeMs = nextWakeMs(d.state) ?? 0
    expect(wakeMs).toBeGreaterThanOrEqual(20_000)
    expect(wakeMs).toBeLessThanOrEqual(20_000 + 75)
    d.take({ type: 'wake', nowMs: wakeMs, sleptMs: 0 })
    expect(d.call).toMatchObject({ verb: 'acquire', claim: { expiredVersion: 'v2', afterTerm: 1 } })
  })

  test('a sleep of the candidate does not shorten its wait', () => {
    const d = drive()
    d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
    const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1 }
    d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 0, sleptMs: 0 })
    const before = d.call.id
    d.take({ type: 'wake', nowMs: 14_000, sleptMs: 60_000 })
    expect(d.call.id).toBe(before)
  })

  test('an elector does not wake repeatedly when work settles at the deadline while a checkpoint is not yet written', () => {
    const d = drive()
    d.take({ type: 'start', ...at(0) })
    const granted: Outcome = { ok: true, record: record({ holder: 'a', attempt: 'me.1' }), validForMs: 15_000 }
    d.take({ type: 'answer', call: d.call.id, outcome: granted, ...at(0) })
    d.take({ type: 'work', pending: 1, ...at(0) })
    d.take({ type: 'step-down', cooldownMs: 0, ...at(0) })
    d.take({ type: 'checkpoint', text: 'x', ...at(0) })
    d.take({ type: 'work', pending: 0, ...at(10_000) })
    expect(d.call).toMatchObject({ verb: 'release' })
    expect(nextWakeMs(d.state) ?? Infinity).toBeGreaterThan(10_000)
  })

  test('the attempts of a thousand standbys are spread over half a percent of the lease (B10)', () => {
    const wakes = Array.from({ length: 1_000 }, (_, index) => {
      const d = drive(initialState(settings), () => index / 1_000)
      d.take({ type: 'start', nowMs: 0, sleptMs: 0 })
      const outcome: Outcome = { ok: false, record: record({}), highestTerm: 1 }
      d.take({ type: 'answer', call: d.call.id, outcome, nowMs: 0, sleptMs: 0 })
      return (nextWakeMs(d.state) ?? 0) - 15_000
    })
    expect(Math.min(...wakes)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...wakes)).toBeLessThanOrEqual(75)
    const inFirstTenth = wakes.filter((ms) => ms < 7.5).length
    expect(inFirstTenth).toBeGreaterThan(50)
    expect(inFirstTenth).toBeLessThan(150)
  })

  test('the algorithm is pure, never leads past its deadline, and never spins, for any sequence of inputs', () => {
    const change = fc.record({
      holder: fc.constantFrom('a', 'b'),
      attempt: fc.constantFrom('me.1', 'me.2', 'me.3', 'other.1'),
      term: fc.integer({ min: 1, max: 4 }),
      version: fc.constantFrom('v1', 'v2', 'v3'),
      released: fc.boolean(),
    })
    const found = fc.option(change, { nil: undefined })
    const happening = fc.oneof(
      fc.record({ type: fc.constantFrom('stop', 'wake', 'watch-ended', 'next-wake') }),
      fc.record({ type: fc.constant('step-down'), cooldownMs: fc.integer({ min: 0, max: 30_000 }) }),
      fc.record({ type: fc.constant('granted'), change }),
      fc.record({ type: fc.constant('refused'), change: found, highestTerm: fc.integer({ min: 0, max: 4 }) }),
      fc.record({ type: fc.constant('found'), change: found }),
      fc.record({ type: fc.constant('failed') }),
      fc.record({ type: fc.constant('observed'), change: found }),
      fc.record({ type: fc.constant('work'), pending: fc.integer({ min: 0, max: 1 }) }),
      fc.record({ type: fc.constant('checkpoint'), text: fc.constantFrom('x', 'y') }),
    )
    const later = fc.record({
      afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20_000 })),
      sleepMs: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 20_000 })),
      happening,
    })
    fc.assert(
      fc.property(fc.array(later, { maxLength: 40 }), fc.integer(), (script, seed) => {
        const random = new Random(seed)
        const d = drive(initialState(settings), () => random.next())
        let [nowMs, sleptMs] = [0, 0]
        d.take({ type: 'start', nowMs, sleptMs })
        for (const { afterMs, sleepMs, happening: it } of script) {
          const wakeMs = nextWakeMs(d.state)
          nowMs = it.type === 'next-wake' ? Math.max(nowMs, wakeMs ?? nowMs) : nowMs + afterMs
          sleptMs += sleepMs
          const call = d.state.flight?.id ?? 0
          const shown = 'change' in it && it.change ? record(it.change) : undefined
          const at = { nowMs, sleptMs }
          const inputs: Record<string, Given> = {
            stop: { type: 'stop', ...at },
            wake: { type: 'wake', ...at },
            'next-wake': { type: 'wake', ...at },
            'watch-ended': { type: 'watch-ended', ...at },
            'step-down': { type: 'step-down', cooldownMs: 'cooldownMs' in it ? it.cooldownMs : 0, ...at },
            granted: {
              type: 'answer',
              call,
              outcome: { ok: true, record: shown ?? record({}), validForMs: 15_000 },
              ...at,
            },
            refused: {
              type: 'answer',
              call,
              outcome: {
                ok: false,
                ...(shown && { record: shown }),
                highestTerm: 'highestTerm' in it ? it.highestTerm : 0,
              },
              ...at,
            },
            found: { type: 'found', call, record: shown, ...at },
            failed: { type: 'failed', call, error: new Error('failed'), ...at },
            observed: { type: 'observed', record: shown, ...at },
            work: { type: 'work', pending: 'pending' in it ? it.pending : 0, ...at },
            checkpoint: { type: 'checkpoint', text: 'text' in it ? it.text : '', ...at },
          }
          const input = inputs[it.type]
          if (input) d.take(input)
          if (leadsAt(d.state, nowMs + sleptMs)) expect(nowMs + sleptMs).toBeLessThan(deadlineOf(d.state))
          if (d.state.phase === 'leading') expect(nowMs + sleptMs).toBeLessThan(deadlineOf(d.state))
          // Everything that is due has been done, so the next wake is later than now.
          expect(nextWakeMs(d.state) ?? Infinity).toBeGreaterThan(nowMs)
        }
      }),
      { numRuns: 3_000 },
    )
  })
})

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) if (!(inner instanceof Error)) deepFreeze(inner)
  }
  return value
}
