/** Checks of the guard's rules. Each one runs on the library and on the mutants that it must catch. */
import assert from 'node:assert/strict'
import type { GuardEffect, GuardedAttempt, GuardInput, GuardState } from '../../../src/engine/guard/guard.ts'
import type { LeaseRecord, LeaseStore, Outcome } from '../../../src/index.ts'

/** The modules that the checks use, all from the same copy of the library. */
export interface Library {
  readonly guard: typeof import('../../../src/engine/guard/guard.ts')
  readonly electorGuard: typeof import('../../../src/engine/guard/elector-guard.ts')
  readonly storeOrigin: typeof import('../../../src/engine/guard/store-origin.ts')
  readonly memory: typeof import('../../../src/stores/memory/index.ts')
}

export const libraryFiles = {
  guard: 'engine/guard/guard.ts',
  electorGuard: 'engine/guard/elector-guard.ts',
  storeOrigin: 'engine/guard/store-origin.ts',
  memory: 'stores/memory/index.ts',
} satisfies Record<keyof Library, string>

const leaseDurationMs = 15_000
const election = 'jobs'

type Body = GuardInput extends infer Each ? (Each extends GuardInput ? Omit<Each, 'nowMs'> : never) : never

/** A guard on a real store, driven manually. */
class Guarded {
  readonly store: LeaseStore
  readonly #library: Library
  state: GuardState
  nowMs = 1_000
  readonly done: GuardEffect['type'][] = []
  #pending: GuardEffect[] = []

  constructor(library: Library) {
    this.#library = library
    this.store = library.memory.memoryStore()
    this.state = library.guard.initialGuardState
  }

  step(input: Body): void {
    const { state, effects } = this.#library.guard.guardStep(this.state, { ...input, nowMs: this.nowMs })
    this.state = state
    this.done.push(...effects.map(({ type }) => type))
    this.#pending.push(...effects)
  }

  /** Registers an acquire, as the process does before it sends one. */
  register(attempt: string, more: Partial<GuardedAttempt> = {}): void {
    const fields = { storeUrl: 'test:', election, holder: 'a', attempt, afterTerm: 0, leaseDurationMs, afterMs: 0 }
    this.step({ type: 'register', attempt: { ...fields, writeIds: [attempt], ...more } })
  }

  async acquire(holder: string, attempt: string, afterTerm = 0): Promise<LeaseRecord> {
    const claim = { election, holder, attempt, leaseDurationMs, afterTerm, metadata: {}, writeId: attempt }
    return recordOf(await this.store.acquire(claim, call()))
  }

  async renew(record: LeaseRecord, writeId: string): Promise<LeaseRecord> {
    return recordOf(await this.store.renew({ ...record, writeId }, call()))
  }

  /** Performs the guard's effects until there are no more. `between` runs before each release. */
  async settle(status: 'gone' | 'running', between?: () => Promise<unknown>): Promise<void> {
    let hook = between
    for (let rounds = 0; this.state.phase !== 'over' && rounds < 2_000; rounds++) {
      const effect = this.#pending.shift()
      if (effect?.type === 'look-at-process') this.step({ type: 'process', status })
      else if (effect?.type === 'read') {
        const record = await this.store.read(effect.attempt.election, call())
        this.step({ type: 'found', attempt: effect.attempt.attempt, record, writeId: `guard-${rounds}` })
      } else if (effect?.type === 'release') {
        await hook?.()
        hook = undefined
        const { ok } = await this.store.release(effect.claim, call())
        this.step({ type: 'released', attempt: effect.attempt.attempt, ok })
      } else {
        const wakeMs = this.#library.guard.nextGuardWakeMs(this.state)
        if (wakeMs === undefined) break
        this.nowMs = Math.max(this.nowMs, wakeMs)
        this.step({ type: 'wake' })
      }
    }
    assert.equal(this.state.phase, 'over', 'the guard must end')
  }

  async held(): Promise<boolean> {
    const record = await this.store.read(election, call())
    return record !== undefined && !record.released
  }
}

function recordOf(outcome: Outcome): LeaseRecord {
  assert.ok(outcome.ok, 'the store must grant this call')
  return outcome.record
}

const call = () => ({ signal: new AbortController().signal, timeoutMs: 1_000 })

async function releasesAfterCrash(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  await on.acquire('a', 'a1')
  on.step({ type: 'pipe-ended' })
  await on.settle('gone')
  assert.equal(await on.held(), false)
}

async function leavesARunningProcess(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  await on.acquire('a', 'a1')
  const endedAtMs = on.nowMs
  on.step({ type: 'pipe-ended' })
  await on.settle('running')
  assert.equal(await on.held(), true)
  assert.ok(on.nowMs - endedAtMs <= 1_100, 'the guard must not look for longer than a second')
}

async function actsOnTheEndAlone(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  const record = await on.acquire('a', 'a1')
  on.step({ type: 'sending', attempt: 'a1', writeId: 'r1' })
  await on.renew(record, 'r1')
  on.step({ type: 'terminate' })
  on.step({ type: 'process', status: 'gone' })
  assert.deepEqual(on.done, [], 'nothing is read or released while the pipe is open')
  on.step({ type: 'pipe-ended' })
  await on.settle('gone')
  assert.equal(await on.held(), false)
}

async function releasesARegisteredRenewal(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  let record = await on.acquire('a', 'a1')
  for (let index = 0; index < 80; index++) {
    on.step({ type: 'sending', attempt: 'a1', writeId: `r${index}` })
    record = await on.renew(record, `r${index}`)
  }
  on.step({ type: 'pipe-ended' })
  await on.settle('gone')
  assert.equal(await on.held(), false)
}

async function readsAgainAfterARefusal(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  const record = await on.acquire('a', 'a1')
  on.step({ type: 'sending', attempt: 'a1', writeId: 'r1' })
  on.step({ type: 'pipe-ended' })
  // The renewal was in flight when the process died, and lands between the guard's read and its release.
  await on.settle('gone', () => on.renew(record, 'r1'))
  assert.equal(await on.held(), false)
}

async function leavesAClone(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  const record = await on.acquire('a', 'a1')
  await on.renew(record, 'of the clone')
  on.step({ type: 'pipe-ended' })
  await on.settle('gone')
  assert.equal(await on.held(), true)
}

async function leavesASuccessor(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  const record = await on.acquire('a', 'a1')
  recordOf(await on.store.release({ ...record, writeId: 'x' }, call()))
  // Another process with the same identity, as after a quick restart.
  await on.acquire('a', 'b1', record.term)
  on.step({ type: 'pipe-ended' })
  const endedAtMs = on.nowMs
  await on.settle('gone')
  assert.equal(await on.held(), true)
  assert.ok(on.nowMs - endedAtMs < 100, 'nothing can be granted to this attempt anymore')
}

async function releasesALateGrant(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  on.step({ type: 'pipe-ended' })
  on.step({ type: 'process', status: 'gone' })
  // The acquire was in flight when the process died, and is granted after the guard's first read.
  on.step({ type: 'found', attempt: 'a1', record: undefined, writeId: 'g' })
  await on.acquire('a', 'a1')
  await on.settle('gone')
  assert.equal(await on.held(), false)
}

async function forgetsWhatIsUnregistered(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  await on.acquire('a', 'a1')
  on.step({ type: 'unregister', attempt: 'a1' })
  on.step({ type: 'pipe-ended' })
  await on.settle('gone')
  assert.equal(await on.held(), true)
  assert.ok(!on.done.includes('read'), 'without an attempt the guard only exits')
}

async function givesUpInTime(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1', { afterMs: 700 })
  on.step({ type: 'pipe-ended' })
  const endedAtMs = on.nowMs
  await on.settle('gone')
  const passedMs = on.nowMs - endedAtMs
  assert.ok(passedMs >= 700 + leaseDurationMs / 3 - 1, `it gave up after ${passedMs} ms`)
  assert.ok(passedMs <= 700 + leaseDurationMs / 3 + 1_000, `it gave up after ${passedMs} ms`)
}

async function waitsBeforeItReads(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1', { afterMs: 700 })
  await on.acquire('a', 'a1')
  on.step({ type: 'pipe-ended' })
  on.step({ type: 'process', status: 'gone' })
  on.nowMs += 699
  on.step({ type: 'wake' })
  assert.ok(!on.done.includes('read'), 'nothing is read before afterMs has passed')
  await on.settle('gone')
  assert.equal(await on.held(), false)
}

async function keepsEightAttempts(library: Library): Promise<void> {
  const on = new Guarded(library)
  for (let index = 0; index < 12; index++) on.register(`a${index}`)
  assert.deepEqual(
    on.state.attempts.map(({ attempt }) => attempt),
    ['a4', 'a5', 'a6', 'a7', 'a8', 'a9', 'a10', 'a11'],
  )
}

async function keepsAttemptsOfEachHolder(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('leader')
  for (let index = 0; index < 12; index++) on.register(`b${index}`, { holder: `b${index}` })
  assert.ok(on.state.attempts.some(({ attempt }) => attempt === 'leader'))
}

async function triesOnceAfterASignal(library: Library): Promise<void> {
  // A service manager signals the rest of a unit as soon as its main process has died.
  const early = new Guarded(library)
  early.register('a1', { afterMs: 700 })
  await early.acquire('a', 'a1')
  early.step({ type: 'pipe-ended' })
  early.step({ type: 'terminate' })
  await early.settle('gone')
  assert.equal(await early.held(), false)
  const late = new Guarded(library)
  late.register('a1')
  late.step({ type: 'pipe-ended' })
  late.step({ type: 'process', status: 'gone' })
  late.step({ type: 'terminate' })
  late.step({ type: 'failed', attempt: 'a1' })
  assert.deepEqual(late.done, ['look-at-process', 'read', 'exit'])
}

async function slowsDownAfterRefusals(library: Library): Promise<void> {
  const on = new Guarded(library)
  on.register('a1')
  const record = await on.acquire('a', 'a1')
  on.step({ type: 'pipe-ended' })
  on.step({ type: 'process', status: 'gone' })
  const startedAtMs = on.nowMs
  for (let refusals = 0; refusals < 100 && on.state.phase !== 'over'; refusals++) {
    on.step({ type: 'found', attempt: 'a1', record, writeId: `g${refusals}` })
    on.step({ type: 'released', attempt: 'a1', ok: false })
    on.nowMs = Math.max(on.nowMs, library.guard.nextGuardWakeMs(on.state) ?? 0)
    on.step({ type: 'wake' })
  }
  assert.equal(on.state.phase, 'over', `100 refusals took ${on.nowMs - startedAtMs} ms`)
}

async function refusesAnUnusableUrl({ electorGuard, memory }: Library): Promise<void> {
  const store = memory.memoryStore()
  const refuse = (storeUrl: unknown, message: RegExp) =>
    assert.throws(() => electorGuard.guardFor({ storeUrl: storeUrl as string }, store), {
      code: 'INVALID_OPTION',
      message,
    })
  refuse('nonsense', /must be the URL of a store/)
  refuse(new URL('redis://127.0.0.1'), /must be the URL of a store/)
  refuse('file:///var/lib/leases', /not a file store/)
}

async function refusesAWorkerThread({ electorGuard, storeOrigin, memory }: Library): Promise<void> {
  // The test runner starts each file in a worker thread.
  const store = memory.memoryStore()
  storeOrigin.rememberOrigin(store, { url: 'redis://127.0.0.1:1', isSlow: false })
  assert.throws(() => electorGuard.guardFor(true, store), { code: 'INVALID_OPTION', message: /needs the main thread/ })
}

/** The checks by name. Each name states what the check shows. */
export const checks = {
  'the lease of a crashed process is released': releasesAfterCrash,
  'nothing is released while the process runs, although its pipe has ended': leavesARunningProcess,
  'nothing is released while the pipe is open': actsOnTheEndAlone,
  'a lease whose newest renewal was registered is released': releasesARegisteredRenewal,
  'a renewal that lands between the read and the release is also released': readsAgainAfterARefusal,
  'a lease that a clone has renewed is not released': leavesAClone,
  'a lease of a later attempt of the same identity is not released': leavesASuccessor,
  'an acquire that is granted after the crash is released': releasesALateGrant,
  'an unregistered attempt is not released': forgetsWhatIsUnregistered,
  'the guard gives up after a third of the lease': givesUpInTime,
  'the guard waits for afterMs before it reads': waitsBeforeItReads,
  'the guard keeps the newest eight attempts of an election': keepsEightAttempts,
  'the guard keeps the attempts of each holder of an election': keepsAttemptsOfEachHolder,
  'a guard that gets a signal after the crash still tries once': triesOnceAfterASignal,
  'a guard whose release is refused again and again slows down': slowsDownAfterRefusals,
  'releaseOnCrash is refused with a storeUrl by which no guard can open the store': refusesAnUnusableUrl,
  'releaseOnCrash is refused in a worker thread': refusesAWorkerThread,
} satisfies Record<string, (library: Library) => Promise<void>>
