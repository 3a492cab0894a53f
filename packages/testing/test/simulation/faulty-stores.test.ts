import { describe, expect, onTestFinished, test } from 'vitest'
import {
  memoryStore,
  type CallOptions,
  type Clock,
  type CompareAndSwap,
  type LeaseStore,
} from '../../../tenure/src/index.ts'
import { simulate, type SimulationOptions, type SimulationReport } from '../../src/simulation/index.ts'

/** A backend that is correct except for how it shows versions and how it fails. */
function backend(show: (version: string) => unknown, more: object = {}): CompareAndSwap {
  const values = new Map<string, { value: string; version: string }>()
  let writes = 0
  const found = (election: string) => {
    const entry = values.get(election)
    return entry && { value: entry.value, version: show(entry.version) }
  }
  return {
    get: async (election: string) => found(election),
    putIfVersion: async (election: string, value: string, version: unknown) => {
      const entry = values.get(election)
      if ((entry && show(entry.version)) !== version) return undefined
      values.set(election, { value, version: String(++writes) })
      return show(String(writes))
    },
    ...more,
  } as unknown as CompareAndSwap
}

/** Runs a simulation and returns unhandled rejections, which would end the process of a real program. */
async function run(options: Omit<SimulationOptions, 'seed'>) {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  const outcome: { report?: SimulationReport; error?: Error } = await simulate({
    seed: 7,
    hours: 0.2,
    ...options,
  }).then(
    (report) => ({ report }),
    (error: Error) => ({ error }),
  )
  await new Promise((resolve) => setImmediate(resolve))
  expect(unhandled).toEqual([])
  return outcome
}

describe('a backend with unusable answers', () => {
  test.each<[string, () => CompareAndSwap]>([
    ['numbers as versions', () => backend(Number)],
    ['big integers as versions', () => backend(BigInt)],
    ['empty versions', () => backend(() => '')],
    ['empty versions in reads only', () => backend(String, { get: async () => ({ value: '{}', version: '' }) })],
    ['no versions', () => backend(() => undefined, { putIfVersion: async () => true })],
    [
      'numbers as versions in reads only',
      () => {
        const sound = backend(String)
        return {
          ...backend(Number),
          get: async (...args: Parameters<CompareAndSwap['get']>) => {
            const found = await sound.get(...args)
            return found && { ...found, version: Number(found.version) as unknown as string }
          },
          putIfVersion: (election, value, version, call) =>
            sound.putIfVersion(election, value, version && `${version}`, call),
        }
      },
    ],
    ['objects as values', () => backend(String, { get: async () => ({ value: {}, version: '1' }) })],
  ])('simulate rejects with RECORD_INVALID when a backend returns %s', async (_, makeBackend) => {
    const { error } = await run({ backend: makeBackend })
    expect(error).toMatchObject({ code: 'RECORD_INVALID', retryable: false })
    expect(error?.message).toMatch(/^The backend under test .* must .*string/)
  })

  test('simulate reports the type of an invalid version and the required type', async () => {
    await expect(simulate({ seed: 7, backend: () => backend(Number) })).rejects.toThrow(
      'The backend under test returned a value that no casStore can use: putIfVersion returned a number. It must return the new version as a non-empty string, or undefined if the condition did not hold.',
    )
  })
})

test('simulate rejects with RECORD_INVALID when the records of a store have numbers as versions', async () => {
  const store = (clock: Clock): LeaseStore => {
    const memory = memoryStore({ clock })
    return {
      ...memory,
      acquire: async (claim, call) => {
        const outcome = await memory.acquire(claim, call)
        return JSON.parse(JSON.stringify(outcome), (key, value: unknown) => (key === 'version' ? Number(value) : value))
      },
    }
  }
  const { error } = await run({ store })
  expect(error).toMatchObject({
    code: 'RECORD_INVALID',
    message: expect.stringMatching(/^The store returned a value that no elector/),
  })
})

describe('a store or backend that fails', () => {
  const fails = () => {
    throw new Error('no such bucket')
  }

  test.each<[string, Omit<SimulationOptions, 'seed'>]>([
    ['a backend that rejects', { backend: () => backend(String, { get: async () => fails() }) }],
    ['a backend that throws at once', { backend: () => backend(String, { get: fails, putIfVersion: fails }) }],
    ['a store that rejects', { store: (clock) => ({ ...memoryStore({ clock }), read: fails, acquire: fails }) }],
    ['a store that throws at once', { store: (clock) => ({ ...memoryStore({ clock }), read: fails, renew: fails }) }],
  ])('nobody leads, and the report shows the error, with %s', async (_, options) => {
    const { report } = await run(options)
    expect(report?.ok).toBe(false)
    expect(String(report)).toContain('error: no such bucket')
  })

  test.each<[string, (clock: Clock) => LeaseStore]>([
    ['throws at once', (clock) => ({ ...memoryStore({ clock }), watch: fails })],
    [
      'fails later',
      (clock) => {
        const memory = memoryStore({ clock })
        return {
          ...memory,
          async *watch(election: string, call: CallOptions) {
            for await (const record of memory.watch?.(election, call) ?? []) {
              if (record && record.term > 3) fails()
              yield record
            }
          },
        }
      },
    ],
  ])('a watch that %s only delays a takeover', async (_, store) => {
    const { report } = await run({ store, faults: ['crash', 'stop', 'touched-record'] })
    expect(String(report)).toMatch(/^seed 7: /)
  })
})

test('simulate accepts a store that is an instance of a class', async () => {
  class Mine implements LeaseStore {
    readonly expiry = 'own-clock'
    readonly terms = true
    readonly #inner: LeaseStore
    constructor(clock: Clock) {
      this.#inner = memoryStore({ clock })
    }
    read(...args: Parameters<LeaseStore['read']>) {
      return this.#inner.read(...args)
    }
    acquire(...args: Parameters<LeaseStore['acquire']>) {
      return this.#inner.acquire(...args)
    }
    renew(...args: Parameters<LeaseStore['renew']>) {
      return this.#inner.renew(...args)
    }
    release(...args: Parameters<LeaseStore['release']>) {
      return this.#inner.release(...args)
    }
    watch(...args: Parameters<NonNullable<LeaseStore['watch']>>) {
      return this.#inner.watch?.(...args) ?? never()
    }
  }
  const { report } = await run({ store: (clock) => new Mine(clock) })
  expect(String(report)).toMatch(/^seed 7: /)
})

async function* never(): AsyncIterable<undefined> {}
