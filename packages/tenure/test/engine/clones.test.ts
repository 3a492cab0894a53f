import { describe, expect, test } from 'vitest'
import { step } from '../../src/engine/election.ts'
import {
  initialState,
  leadsAt,
  type Effect,
  type ElectionState,
  type Input,
  type ElectionSettings,
} from '../../src/engine/election-state.ts'
import { casStore, memoryStore, type AcquireClaim, type LeaseRecord, type LeaseStore } from '../../src/index.ts'
import { simulatedKv } from '../../../testing/src/simulation/simulated-kv.ts'
import { granted, judgeAcquire, refused } from '../../src/store-kit/rules.ts'
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
  canWatch: false,
  readsFirst: false,
  terms: true,
  until: 'stopped',
  waitMs: 0,
}
const call = { signal: new AbortController().signal }
let drawn = 0

type Happening =
  | { type: 'start' | 'wake' | 'stop' }
  | { type: 'step-down'; cooldownMs: number }
  | { type: 'observed'; record: LeaseRecord | undefined }

/** One process: its state, and a real store that performs its calls. Copying the state models restoring a snapshot. */
class Process {
  readonly told: Effect[] = []
  readonly store: LeaseStore
  state: ElectionState
  /** Whether this process is cut off from its store. */
  cut = false

  constructor(store: LeaseStore, state: ElectionState = initialState(settings)) {
    this.store = store
    this.state = state
  }

  clone(): Process {
    return new Process(this.store, structuredClone(this.state))
  }

  /** Handles one input and all further inputs that its effects cause, all at the same time. */
  async take(happening: Happening, nowMs: number) {
    let inputs: object[] = [happening]
    for (let next = inputs.shift(); next; next = inputs.shift()) {
      const input = { ...next, nowMs, sleptMs: 0, fresh: () => `fresh-${++drawn}`, chance: () => 0.5 } as Input
      const { state, effects } = step(this.state, input)
      this.state = state
      this.told.push(...effects)
      for (const effect of effects) inputs = [...inputs, ...(await this.#perform(effect))]
    }
  }

  async #perform(effect: Effect): Promise<object[]> {
    if (effect.type === 'ended') return [{ type: 'end-told' }]
    if (effect.type !== 'call') return []
    const { id, verb } = effect.call
    if (this.cut) return [{ type: 'failed', call: id, error: new Error('no route') }]
    if (verb === 'read') return [{ type: 'found', call: id, record: await this.store.read('e', call) }]
    const outcome =
      verb === 'acquire'
        ? await this.store.acquire(effect.call.claim, call)
        : await this.store[verb](effect.call.claim, call)
    return [{ type: 'answer', call: id, outcome }]
  }

  leads(nowMs: number): boolean {
    return leadsAt(this.state, nowMs)
  }

  get sawClone(): boolean {
    return this.told.some((effect) => effect.type === 'error' && (effect.error as { code?: string }).code === 'CLONED')
  }
}

const stores: Record<string, () => LeaseStore> = {
  memory: () => memoryStore(),
  'compare-and-swap': () => casStore(simulatedKv({ watch: false })),
}

describe.each(Object.keys(stores))('two processes restored from one snapshot on a %s store', (name) => {
  async function leadingTwice() {
    const original = new Process((stores[name] ?? memoryStore)())
    await original.take({ type: 'start' }, 0)
    expect(original.leads(0)).toBe(true)
    return { original, clone: original.clone() }
  }

  test('two clones lead together only until the first of them renews', async () => {
    const { original, clone } = await leadingTwice()
    await original.take({ type: 'wake' }, 5_000)
    await clone.take({ type: 'wake' }, 5_001)
    expect([original.leads(5_001), clone.leads(5_001)]).toEqual([true, false])
    expect([original.sawClone, clone.sawClone]).toEqual([false, true])
    expect(clone.told).toContainEqual({ type: 'ended', reason: 'superseded' })
    await original.take({ type: 'wake' }, 10_000)
    expect(original.leads(10_000)).toBe(true)
  })

  test('a clone that stops or steps down does not release the lease that the other holds', async () => {
    for (const happening of [{ type: 'stop' }, { type: 'step-down', cooldownMs: 0 }] as const) {
      const { original, clone } = await leadingTwice()
      await original.take({ type: 'wake' }, 5_000)
      await clone.take(happening, 5_001)
      await clone.take({ type: 'wake' }, 12_000)
      await original.take({ type: 'wake' }, 10_000)
      expect(original.leads(10_001)).toBe(true)
      expect((await original.store.read('e', call)) as LeaseRecord).toMatchObject({ term: 1, released: false })
    }
  })

  test('a clone whose lease expired unnoticed does not release the lease that the other holds', async () => {
    const { original, clone } = await leadingTwice()
    await original.take({ type: 'wake' }, 5_000)
    // Nothing woke the clone before its deadline had passed.
    await clone.take({ type: 'wake' }, 10_001)
    expect(clone.leads(10_001)).toBe(false)
    await original.take({ type: 'wake' }, 10_002)
    for (let nowMs = 10_003; nowMs < 14_000; nowMs += 500) await clone.take({ type: 'wake' }, nowMs)
    expect(original.leads(14_000)).toBe(true)
    expect((await original.store.read('e', call)) as LeaseRecord).toMatchObject({ term: 1, released: false })
  })

  test('a clone campaigns with an attempt id that the original does not know', async () => {
    const { original, clone } = await leadingTwice()
    await original.take({ type: 'stop' }, 1_000)
    await clone.take({ type: 'wake' }, 5_000)
    expect(clone.told).toContainEqual({ type: 'ended', reason: 'superseded' })
    await clone.take({ type: 'wake' }, 5_001)
    await clone.take({ type: 'wake' }, 9_000)
    expect(clone.leads(9_000)).toBe(true)
    const record = await original.store.read('e', call)
    expect(record?.term).toBe(2)
    expect(original.state.own.map(({ id }) => id)).not.toContain(record?.attempt)
  })
})

/** A store that returns records without their write ids once `forgets` is set, like a service that has restarted. */
function forgetfulStore() {
  const memory = memoryStore()
  const told = { forgets: false }
  const forget = <T extends { record?: LeaseRecord | undefined }>(answer: T): T =>
    told.forgets && answer.record ? { ...answer, record: { ...answer.record, writeId: undefined } } : answer
  const store: LeaseStore = {
    ...memory,
    read: async (election, options) => forget({ record: await memory.read(election, options) }).record,
    acquire: async (claim, options) => forget(await memory.acquire(claim, options)),
    renew: async (claim, options) => forget(await memory.renew(claim, options)),
    release: async (claim, options) => forget(await memory.release(claim, options)),
  }
  return { store, told }
}

test('a clone does not release the lease that the other holds when the store has lost its write id', async () => {
  const { store, told } = forgetfulStore()
  const original = new Process(store)
  await original.take({ type: 'start' }, 0)
  const clone = original.clone()
  clone.cut = true
  await original.take({ type: 'wake' }, 5_000)
  for (let nowMs = 5_000; nowMs <= 11_000; nowMs += 500) await clone.take({ type: 'wake' }, nowMs)
  await original.take({ type: 'wake' }, 10_000)
  told.forgets = true
  clone.cut = false
  for (let nowMs = 11_500; nowMs <= 14_000; nowMs += 500) await clone.take({ type: 'wake' }, nowMs)
  expect([original.leads(14_500), clone.leads(14_500)]).toEqual([true, false])
})

test("a late event from this process's earlier leadership is not reported as a clone", async () => {
  const store = memoryStore()
  const process = new Process(store, initialState({ ...settings, canWatch: true }))
  await process.take({ type: 'start' }, 0)
  const history: (LeaseRecord | undefined)[] = []
  for (let nowMs = 0; nowMs <= 100_000; nowMs += 5_000) {
    await process.take({ type: 'wake' }, nowMs)
    history.push(await store.read('e', call))
  }
  process.cut = true
  for (let nowMs = 105_000; nowMs <= 111_000; nowMs += 1_000) await process.take({ type: 'wake' }, nowMs)
  await process.take({ type: 'observed', record: history[3] }, 111_100)
  expect(process.sawClone).toBe(false)
})

test('a late write by this process that takes effect after a refusal is not reported as a clone', () => {
  let state = initialState(settings)
  let names = 0
  const told: Effect[] = []
  const take = (input: object, nowMs: number) => {
    const moment = { nowMs, sleptMs: 0, fresh: () => `mark-${++names}`, chance: () => 0.5 }
    const after = step(state, { ...input, ...moment } as Input)
    state = after.state
    told.push(...after.effects)
  }
  const sent = () => {
    const call = told.findLast((effect) => effect.type === 'call')?.call
    return call && 'claim' in call ? call : expect.unreachable('no claim was sent')
  }
  take({ type: 'start' }, 0)
  const { id, claim } = sent()
  const verdict = judgeAcquire({ record: undefined, highestTerm: 0, remainingMs: undefined }, claim as AcquireClaim, 0)
  if ('answer' in verdict) return expect.unreachable('the first claim was refused')
  const record: LeaseRecord = { ...verdict.write, version: 'v1' }
  take({ type: 'answer', call: id, outcome: granted(record, claim) }, 0)
  take({ type: 'wake' }, 5_000)
  const late = sent()
  take({ type: 'failed', call: late.id, error: new Error('no answer') }, 6_000)
  take({ type: 'wake' }, 8_000)
  // This renewal lost a race against a write that left the record unchanged.
  take({ type: 'answer', call: sent().id, outcome: refused({ record, highestTerm: 1, remainingMs: undefined }) }, 8_000)
  const renewed = { ...record, version: 'v2', writeId: late.claim.writeId }
  const overtaken = refused({ record: renewed, highestTerm: 1, remainingMs: undefined })
  take({ type: 'answer', call: sent().id, outcome: overtaken }, 8_001)
  expect(told.filter(({ type }) => type === 'error')).toEqual([])
  expect(leadsAt(state, 8_001)).toBe(true)
})

test('a process leads through a store wrapper that drops write ids from claims', async () => {
  const inner = casStore(simulatedKv({ watch: false }))
  const process = new Process({
    ...inner,
    acquire: ({ writeId: _mark, ...claim }, options) => inner.acquire(claim, options),
    renew: ({ writeId: _mark, ...claim }, options) => inner.renew(claim, options),
  })
  await process.take({ type: 'start' }, 0)
  await process.take({ type: 'wake' }, 5_000)
  await process.take({ type: 'wake' }, 10_000)
  expect(process.leads(14_000)).toBe(true)
})

test('a leader keeps its lease in a store that keeps no write ids', async () => {
  const memory = memoryStore()
  const unmarked = (outcome: Awaited<ReturnType<LeaseStore['renew']>>) =>
    outcome.record ? { ...outcome, record: { ...outcome.record, writeId: undefined } } : outcome
  const store: LeaseStore = {
    ...memory,
    acquire: async (claim, options) => unmarked(await memory.acquire(claim, options)),
    renew: async (claim, options) => unmarked(await memory.renew(claim, options)),
  }
  const process = new Process(store)
  await process.take({ type: 'start' }, 0)
  for (let nowMs = 5_000; nowMs < 60_000; nowMs += 5_000) {
    await process.take({ type: 'wake' }, nowMs)
    expect(process.leads(nowMs)).toBe(true)
  }
})
