import { deepEqual, equal, fail, match, ok } from 'node:assert/strict'
import { isTenureError, type TenureError } from '../../src/common/errors.ts'
import type { AcquireClaim, HeldClaim, LeaseRecord, LeaseStore } from '../../src/engine/lease-store.ts'
import { memoryResources } from '../../src/multicluster/memory-resources.ts'
import type { relayedStore } from '../../src/multicluster/relayed-store.ts'
import type {
  MultiClusterAnswer,
  MultiClusterLease,
  RelayedRecord,
  StatusPatch,
} from '../../src/multicluster/protocol/resource-types.ts'
import type { Resources } from '../../src/multicluster/resources.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { follow } from '../promise-outcome.ts'

/** The library, or a mutant of it. */
export interface Library {
  readonly relayedStore: typeof relayedStore
}

/** The resource that every check uses. */
export const key = { namespace: 'jobs', name: 'nightly' }
export const timeoutMs = 5_000
export const call = { signal: new AbortController().signal, timeoutMs }

export function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const fields = { election: 'nightly', holder: 'ada', attempt: 'attempt-1', leaseDurationMs: 15_000 }
  return { ...fields, afterTerm: 0, metadata: { zone: 'a' }, writeId: 'mark-1', ...change }
}

export function recordOf(change: Partial<RelayedRecord> = {}): RelayedRecord {
  const grant = { holder: 'ada', cluster: 'east', attempt: 'attempt-1', term: 1, leaseDurationMs: 15_000 }
  const times = { acquiredAt: 1, renewedAt: 1, released: false }
  return { ...grant, ...times, metadata: '{"zone":"a"}', checkpoint: '', version: 'v1', ...change }
}

export const asLeaseRecord = (relayed: RelayedRecord): LeaseRecord => {
  const { cluster: _, metadata, ...record } = relayed
  return { ...record, election: 'nightly', metadata: JSON.parse(metadata) }
}

export const grantOf = (change: Partial<RelayedRecord> = {}): Omit<MultiClusterAnswer, 'id'> => ({
  ok: true,
  record: recordOf(change),
  validForMs: 15_000,
})

export const heldClaim: HeldClaim = {
  election: 'nightly',
  holder: 'ada',
  attempt: 'attempt-1',
  term: 1,
  version: 'v1',
  leaseDurationMs: 15_000,
}

/** A lock, its resource, and a controller whose answers the check controls. */
export class Scene {
  readonly clock = fakeClock()
  readonly resources = memoryResources(() => this.clock.randomId())
  /** The requests that the store sent to the API server, in order. */
  readonly asked: string[] = []
  /** The number of open watches. */
  watches = 0
  /** Replaces methods of the API server. */
  fault: Partial<Resources> = {}
  readonly #library: Library

  constructor(library: Library) {
    this.#library = library
  }

  open(): LeaseStore {
    const { resources } = this
    const note = (what: string) => void this.asked.push(what)
    const port: Resources = {
      get: (...args) => (note('get'), (this.fault.get ?? resources.get)(...args)),
      create: (...args) => (note('create'), (this.fault.create ?? resources.create)(...args)),
      patchSpec: (...args) => (note('patch'), (this.fault.patchSpec ?? resources.patchSpec)(...args)),
      patchStatus: (...args) => resources.patchStatus(...args),
      watch: (of, options) => {
        note('watch')
        return this.#counted((this.fault.watch ?? resources.watch)(of, options))
      },
    }
    return this.#library.relayedStore(port, key.namespace, this.clock)
  }

  async *#counted<T>(changes: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    this.watches++
    try {
      yield* changes
    } finally {
      this.watches--
    }
  }

  /** Runs everything that does not need time to pass. */
  settle(): Promise<void> {
    return this.clock.advance(0)
  }

  async resource(): Promise<MultiClusterLease> {
    return (await this.resources.get(key, call)) ?? fail('there is no resource')
  }

  async requests() {
    return Object.entries((await this.resource()).spec.requests).map(([name, request]) => ({ ...request, key: name }))
  }

  /** The only request in the resource. */
  async request() {
    const [only, ...others] = await this.requests()
    deepEqual(others, [], 'there is more than one request')
    return only ?? fail('there is no request')
  }

  async status(patch: StatusPatch): Promise<void> {
    const { uid } = await this.resource()
    await this.resources.patchStatus({ ...key, uid }, patch, undefined, call)
    await this.settle()
  }

  /** Writes an answer as a controller does. Fields of an earlier answer are removed. */
  answer(at: string, id: string, answer: Omit<MultiClusterAnswer, 'id'>): Promise<void> {
    const none = { record: null, validForMs: null, highestTerm: null, retryAfterMs: null, error: null }
    return this.status({
      answers: { [at]: { ...none, ...answer, id } },
      ...(answer.record && { record: answer.record }),
    })
  }

  /** Starts a call and returns its outcome once the call can only wait. */
  async begin<T>(promise: Promise<T>) {
    const outcome = follow(promise)
    await this.settle()
    return outcome
  }

  /** Makes a call and answers it at once. */
  async done<T>(promise: Promise<T>, answer: Omit<MultiClusterAnswer, 'id'>): Promise<T> {
    const before = await this.begin(promise)
    equal(before.state, 'pending', 'the call returned before it was answered')
    const newest = (await this.requests()).at(-1) ?? fail('there is no request')
    await this.answer(newest.key, newest.id, answer)
    return promise
  }
}

/** Asserts that the call was rejected with this code and message. */
export function rejected(
  { state, error }: { state: string; error: unknown },
  code: string,
  words: RegExp,
): TenureError {
  equal(state, 'rejected', 'the call was not rejected')
  ok(isTenureError(error), String(error))
  equal(error.code, code)
  match(error.message, words)
  return error
}

/** Checks by name. Each name states what the lock promises, and a mutant names the check that catches it. */
export type Checks = Readonly<Record<string, (library: Library) => Promise<void>>>
