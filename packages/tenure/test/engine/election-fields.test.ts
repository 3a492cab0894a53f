import { expect, test } from 'vitest'
import { memoryWith, stateWith } from '../../src/engine/election-fields.ts'
import { step } from '../../src/engine/election.ts'
import { initialState, type ElectionState, type Input, type ElectionSettings } from '../../src/engine/election-state.ts'
import { granted, judgeAcquire, judgeRenew, refused, type Current } from '../../src/store-kit/rules.ts'
import { noPreference } from '../../src/engine/preference.ts'
import { resolveTimings } from '../../src/engine/timings.ts'
import { later } from '../../../testing/test/simulation/shift-times.ts'

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

const asItIs = later(0, 0)

const copyOf = (state: ElectionState) => ({ ...stateWith(asItIs, state), ...memoryWith(asItIs, state) })

/** Returns the fields of a value, at any depth, that another value lacks. */
function lacking(value: unknown, other: unknown, path = 'state'): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const has = Object.hasOwn(other as object, name)
    return has ? lacking(inner, (other as { [name: string]: unknown })[name], `${path}.${name}`) : [`${path}.${name}`]
  })
}

/** Yields states of one elector that together use every part of the state. */
function* life(): Generator<ElectionState> {
  let state = initialState(settings)
  let nowMs = 0
  let names = 0
  const take = (input: object): ElectionState => {
    const moment = { nowMs, sleptMs: 0, fresh: () => `n${++names}`, chance: () => 0.5 }
    state = step(state, { ...input, ...moment } as Input).state
    return state
  }
  const record = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: 15_000, metadata: {}, afterTerm: 0 }
  const verdict = judgeAcquire({ record: undefined, highestTerm: 0, remainingMs: undefined }, record, 0)
  if (!('write' in verdict)) return expect.unreachable('the first claim was refused')
  const held: Current = { record: { ...verdict.write, version: 'v1' }, highestTerm: 1, remainingMs: undefined }
  yield state
  yield take({ type: 'start' })
  yield take({ type: 'answer', call: 1, outcome: refused(held) })
  nowMs = 20_000
  yield take({ type: 'wake' })
  const won = { ...verdict.write, holder: 'a', attempt: state.attempt?.id ?? '', term: 2, version: 'v2' }
  yield take({ type: 'answer', call: 2, outcome: granted(won, settings) })
  nowMs = 25_000
  yield take({ type: 'checkpoint', text: 'far' })
  const claim = { ...won, version: 'v2', writeId: 'n2' }
  const renewed = judgeRenew({ record: won, highestTerm: 2, remainingMs: undefined }, claim, 0)
  if ('write' in renewed) {
    yield take({ type: 'answer', call: 3, outcome: granted({ ...renewed.write, version: 'v3' }, settings) })
  }
  yield take({ type: 'work', pending: 1 })
  yield take({ type: 'stop' })
}

test('every field of the election state is listed for model checking, at any depth', () => {
  const seen = new Set<string>()
  for (const state of life()) {
    for (const [name, value] of Object.entries(state)) {
      if (typeof value === 'object' && (!Array.isArray(value) || value.length > 0)) seen.add(name)
    }
    expect(copyOf(state)).toEqual(state)
    expect(lacking(state, copyOf(state))).toEqual([])
  }
  const parts = ['own', 'flight', 'attempt', 'view', 'seen', 'confirmed', 'grant', 'ending']
  expect([...seen], 'the yielded states do not use every part').toEqual(expect.arrayContaining(parts))
})

test('an unlisted field is detected at the top level and below', () => {
  const [state] = [...life()].filter(({ seen }) => seen.length > 0)
  if (!state) return expect.unreachable('no state has observed a version')
  const more = { ...state, luck: 1, seen: state.seen.map((sight) => ({ ...sight, by: 'watch' })) }
  expect(lacking(more, copyOf(more))).toEqual(['state.seen.0.by', 'state.luck'])
})
