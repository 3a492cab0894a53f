import { expect, test } from 'vitest'
import { recordFields, stateFields, type Meaning } from '../src/election-fields.ts'
import { step } from '../src/election.ts'
import { initialState, type ElectionState, type Input, type Settings } from '../src/election-state.ts'
import { granted, judgeAcquire, judgeRenew, refused, type Current } from '../src/stores/rules.ts'
import { resolveTimings } from '../src/timings.ts'

type Fields = { readonly [name: string]: Meaning | Fields }

const settings: Settings = {
  ...resolveTimings({}),
  election: 'e',
  identity: 'a',
  metadata: {},
  drainTimeoutMs: 30_000,
  releaseOnStop: true,
  canWatch: true,
  terms: true,
  until: 'stopped',
}

/** Fields of a value, at any depth, that the meanings do not name. */
function unknownFields(value: unknown, fields: Meaning | Fields, path: string): string[] {
  if (typeof value !== 'object' || value === null || typeof fields === 'string') return []
  if (Array.isArray(value)) return value.flatMap((element) => unknownFields(element, fields, `${path}[]`))
  return Object.entries(value).flatMap(([name, inner]) => {
    const field = fields[name]
    return field === undefined ? [`${path}.${name}`] : unknownFields(inner, field, `${path}.${name}`)
  })
}

/** States of a life in which every part of the state comes up. */
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
  if (!('write' in verdict)) return expect.unreachable('the first claim is granted')
  const held: Current = { record: { ...verdict.write, version: 'v1' }, highestTerm: 1, remainingMs: undefined }
  yield state
  yield take({ type: 'start' })
  yield take({ type: 'answer', call: 1, outcome: refused(held) })
  nowMs = 20_000
  yield take({ type: 'wake' })
  const won = { ...verdict.write, holder: 'a', attempt: state.attempt?.id ?? '', term: 2, version: 'v2' }
  yield take({ type: 'answer', call: 2, outcome: granted(won, settings) })
  nowMs = 25_000
  yield take({ type: 'carry', text: 'far' })
  const claim = { ...won, version: 'v2', mark: 'n2' }
  const renewed = judgeRenew({ record: won, highestTerm: 2, remainingMs: undefined }, claim, 0)
  if ('write' in renewed) {
    yield take({ type: 'answer', call: 3, outcome: granted({ ...renewed.write, version: 'v3' }, settings) })
  }
  yield take({ type: 'work', pending: 1 })
  yield take({ type: 'stop' })
}

test('every field of a state has a meaning, and none is named that a state does not have', () => {
  const { settings: _, ...fields } = initialState(settings)
  expect(Object.keys(stateFields).toSorted()).toEqual(Object.keys(fields).toSorted())
  const seen = new Set<string>()
  for (const { settings: _settings, ...state } of life()) {
    for (const [name, value] of Object.entries(state)) {
      if (typeof value === 'object' && (!Array.isArray(value) || value.length > 0)) seen.add(name)
    }
    expect(unknownFields(state, stateFields, 'state')).toEqual([])
  }
  const nested = Object.entries(stateFields).flatMap(([name, field]) => (typeof field === 'string' ? [] : [name]))
  expect([...seen].toSorted(), 'a part that this life does not have is not looked at').toEqual(
    expect.arrayContaining(nested),
  )
})

test('a field without a meaning is noticed, in the state and below', () => {
  const { settings: _, ...state } = initialState(settings)
  expect(unknownFields({ ...state, luck: 1 }, stateFields, 'state')).toEqual(['state.luck'])
  const sight = { key: 'v1', atMs: 0, by: 'watch' }
  expect(unknownFields({ ...state, seen: [sight] }, stateFields, 'state')).toEqual(['state.seen[].by'])
  expect(unknownFields({ term: 1, colour: 'red' }, recordFields, 'record')).toEqual(['record.colour'])
})
