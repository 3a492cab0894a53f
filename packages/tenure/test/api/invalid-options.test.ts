import { tmpdir } from 'node:os'
import { describe, expect, test } from 'vitest'
import {
  casStore,
  createElections,
  Elector,
  lead,
  LeaderElector,
  Manager,
  memoryStore,
  ttlStore,
} from '../../src/index.ts'
import { fileStore } from '../../src/stores/file/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'

type Wrong = Readonly<Record<string, readonly unknown[]>>

const store = memoryStore()
const cyclic: Record<string, unknown> = {}
cyclic['self'] = cyclic

const noDuration = [0, -1, 1e-9, NaN, Infinity, -Infinity, 2 ** 31, '15', '', null, true, 15n, {}, [15]]
const noName = [
  '',
  'a'.repeat(257),
  // 129 characters, but 257 bytes.
  `${'é'.repeat(128)}a`,
  'two\nlines',
  'bell\u0007',
  '\u0000',
  'delete\u007f',
  'c1\u0085',
  'half a pair \ud83d',
  '\udc00',
  7,
  null,
  true,
  {},
  ['name'],
]
const noStore = [undefined, null, 'memory:', 1, {}, [], { read() {}, acquire() {}, renew() {} }]
const noClock = [null, 'now', 0, {}, { monotonicMs: () => 0 }]
const noObserver = [null, 'log', 1, console.log, []]
const noBoolean = ['yes', 'false', 0, 1, null, {}]
const noMetadata = [null, 'text', 5, [], cyclic, { big: 1n }, { text: 'x'.repeat(4096) }]
const noStorage = [undefined, null, 'redis', {}, { insertIfNotExist() {}, compareAndSwap() {} }]

const timings: Wrong = {
  leaseDurationMs: [...noDuration, 99],
  renewIntervalMs: noDuration,
  renewDeadlineMs: noDuration,
  retryIntervalMs: noDuration,
  driftRatio: [0, -0.01, 1, 2, NaN, Infinity, '0.01', null],
  maxFailedRenewals: [0, 1, -1, 2.5, NaN, -Infinity, 2 ** 53, '3', null],
}
const elector: Wrong = {
  ...timings,
  store: noStore,
  election: [undefined, ...noName],
  identity: noName,
  metadata: noMetadata,
  releaseOnStop: noBoolean,
  drainTimeoutMs: noDuration,
  present: noBoolean,
  // Valid numbers are rejected here too, because a generation needs a seat.
  generation: [-1, 0.5, NaN, Infinity, 2 ** 53, '42', null, {}, 42],
  maxMembers: [0, -1, 1.5, 101, NaN, Infinity, '32', null, {}],
  clock: noClock,
  observer: noObserver,
}

/** Returns a value as a message shows it. Messages cut long values, so only their start is returned. */
function shown(value: unknown): string {
  if (typeof value === 'string') {
    const escaped = JSON.stringify(value).replace('\u007f', '\\u007f').replace('\u0085', '\\u0085')
    return value.length > 80 ? '"' : escaped
  }
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  return typeof value === 'object' && value !== null ? 'a' : String(value)
}

async function thrownBy(make: () => unknown): Promise<unknown> {
  try {
    await make()
    return 'nothing'
  } catch (error) {
    return error
  }
}

function refuses(wrong: Wrong, make: (options: object) => unknown): void {
  const cases = Object.entries(wrong).map(([option, values]) => ({ option, values }))
  test.each(cases)('an invalid $option is rejected', async ({ option, values }) => {
    for (const value of values) {
      const error = await thrownBy(() => make({ [option]: value }))
      expect(error, `${option}: ${shown(value)}`).toBeInstanceOf(TypeError)
      expect(error).toMatchObject({ code: 'INVALID_OPTION', retryable: false })
      const { message } = error as TypeError
      expect(message).toMatch(new RegExp(`^Option "${option}" is [^]+, but .{10,}\\.$`))
      expect(message, 'shows the value').toContain(` is ${shown(value)}`)
      // oxlint-disable-next-line no-control-regex
      expect(message, 'shows no control character').not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
    }
  })
}

describe('invalid options of Elector', () => {
  refuses(elector, (wrong) => new Elector({ store, election: 'e', ...wrong }))
})

describe('invalid options of a present Elector', () => {
  const make = (wrong: object) => new Elector({ store, election: 'e', present: true, ...wrong })
  refuses(
    {
      generation: [-1, 0.5, NaN, Infinity, 2 ** 53, '42', null, {}],
      // The name of its last seat has ten characters more.
      election: ['a'.repeat(247)],
      // The seat keeps the metadata together with the generation.
      metadata: [{ text: 'x'.repeat(4_080) }],
    },
    make,
  )

  test('a present elector accepts the longest name and the largest generation', () => {
    expect(() =>
      make({ election: 'a'.repeat(246), generation: Number.MAX_SAFE_INTEGER, maxMembers: 100 }),
    ).not.toThrow()
  })

  test('a present elector rejects a store without terms', async () => {
    const error = await thrownBy(() => make({ store: ttlStore(memoryTtlStorage()) }))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'present' })
  })
})

describe('invalid options of Manager', () => {
  refuses(elector, (wrong) => new Manager({ store, election: 'e', ...wrong }))
})

describe('invalid options of lead', () => {
  const wrong = {
    ...elector,
    onLoss: ['', 'retry', null, true, 1],
    signal: [null, 'SIGTERM', 5_000, {}, new AbortController()],
  }
  refuses(wrong, (wrong) => lead({ store, election: 'e', ...wrong }, () => expect.unreachable()))

  test('lead rejects work that is not a function', async () => {
    for (const work of [undefined, null, 'work', Promise.resolve()]) {
      const error = await thrownBy(() => lead({ store, election: 'e' }, work as never))
      expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('Option "work" is') })
    }
  })
})

describe('invalid options of LeaderElector', () => {
  const nothing = () => undefined
  const options = {
    store,
    leaseName: 'l',
    leaseNamespace: 'n',
    identity: 'i',
    callbacks: { onStartedLeading: nothing },
  }
  const make = (wrong: object) => new LeaderElector({ ...options, ...wrong })
  refuses(
    {
      store: noStore,
      identity: [undefined, ...noName],
      leaseName: [undefined, ...noName],
      leaseNamespace: [undefined, ...noName, 'a/b', '/'],
      leaseDurationMs: [...noDuration, 99],
      renewDeadlineMs: noDuration,
      retryPeriodMs: noDuration,
      releaseOnCancel: noBoolean,
      drainTimeoutMs: noDuration,
      metadata: noMetadata,
      callbacks: [undefined, null, 'run', [], nothing],
      clock: noClock,
      observer: noObserver,
    },
    make,
  )

  test('the error for an invalid callback of LeaderElector names that callback', () => {
    const wrong = [
      ['onStartedLeading', undefined],
      ['onStartedLeading', null],
      ['onStoppedLeading', 'exit'],
      ['onStoppedLeading', null],
      ['onNewLeader', 5],
    ] as const
    for (const [name, value] of wrong) {
      const callbacks = { ...options.callbacks, [name]: value }
      expect(() => make({ callbacks })).toThrow(new RegExp(`Option "callbacks\\.${name}" is`))
    }
  })

  test('LeaderElector rejects a retryPeriodMs that leaves no time to renew', () => {
    for (const retryPeriodMs of [10_000, 9_999.5, 14_000]) {
      expect(() => make({ renewDeadlineMs: 10_000, retryPeriodMs })).toThrow(
        /Option "retryPeriodMs" is .* renewDeadlineMs \(10000\) must be at least 1\.2 times/,
      )
    }
  })

  test('LeaderElector rejects a leaseName that is too long together with its namespace', () => {
    const names = { leaseName: 'l'.repeat(200), leaseNamespace: 'n'.repeat(56) }
    expect(() => make(names)).toThrow(/Option "leaseName" is .*with leaseNamespace/)
    expect(() => make({ ...names, leaseNamespace: 'n'.repeat(55) })).not.toThrow()
  })
})

describe('invalid options of createElections', () => {
  const storage = memoryTtlStorage<string, string>()
  refuses(
    {
      storage: noStorage,
      onStorageError: ['', 'ignore', null, true],
      clock: noClock,
      observer: noObserver,
      log: [null, 'console', {}],
    },
    (wrong) => createElections({ storage, ...wrong }),
  )
})

describe('invalid options of memoryStore', () => {
  refuses({ clock: noClock }, (wrong) => memoryStore(wrong))
})

describe('invalid options of casStore', () => {
  const backend = { get: async () => undefined, putIfVersion: async () => undefined }
  refuses({ clock: noClock }, (wrong) => casStore(backend, wrong))

  test('casStore rejects an incomplete backend', () => {
    for (const wrong of [undefined, null, 'bucket', {}, { get() {} }]) {
      expect(() => casStore(wrong as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    }
  })
})

describe('invalid options of ttlStore', () => {
  refuses({ clock: noClock }, (wrong) => ttlStore(memoryTtlStorage(), wrong))

  test('ttlStore rejects an incomplete storage', () => {
    for (const wrong of noStorage) {
      const make = () => ttlStore(wrong as never)
      expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    }
  })
})

describe('invalid options of fileStore', () => {
  const directory = tmpdir()
  refuses({ directory: [undefined, null, '', 5, 'a\0b', {}] }, (wrong) => fileStore(wrong))
  refuses(
    {
      clock: noClock,
      allowNetworkFilesystem: noBoolean,
      fastTakeover: noBoolean,
      signOfLife: [null, 'socket', {}],
    },
    (wrong) => fileStore({ directory, ...wrong }),
  )

  test('fileStore rejects a directory together with a path', () => {
    expect(() => fileStore({ directory, path: 'lease' })).toThrow(/exactly one of "directory".* and "path"/)
  })
})

test('options that are not an object are rejected', async () => {
  const makers: ((options: never) => unknown)[] = [
    (options) => new Elector(options),
    (options) => new Manager(options),
    (options) => new LeaderElector(options),
    (options) => lead(options, () => undefined),
    createElections,
    fileStore,
  ]
  for (const make of makers) {
    for (const options of [undefined, null, 'options', 5]) {
      const error = await thrownBy(() => make(options as never))
      expect(error, `${String(make)} of ${options}`).toBeInstanceOf(TypeError)
      expect(error, `${String(make)} of ${options}`).toMatchObject({ code: 'INVALID_OPTION' })
    }
  }
})

describe('timings that are not safe together', () => {
  test.each([
    [
      'a deadline that leaves no time to wind down',
      { leaseDurationMs: 15_000, renewDeadlineMs: 14_000 },
      /"renewDeadlineMs" is 14000.*15000/,
    ],
    [
      'a deadline after the end of the lease',
      { leaseDurationMs: 5_000, renewDeadlineMs: 10_000 },
      /"renewDeadlineMs" is 10000/,
    ],
    [
      'a clock drift that is too large for the lease',
      { driftRatio: 0.9 },
      /"driftRatio" is 0\.9.*leaseDurationMs 15000/,
    ],
    [
      'a deadline that is too late for the clock drift',
      { renewDeadlineMs: 10_000, driftRatio: 0.2 },
      /"renewDeadlineMs".*driftRatio 0\.2/,
    ],
    [
      'a first renewal after the deadline',
      { renewIntervalMs: 11_000, retryIntervalMs: 2_000, renewDeadlineMs: 10_000 },
      /at least renewIntervalMs \+ retryIntervalMs \(11000 \+ 2000\)/,
    ],
    [
      'no time for a second renewal',
      { renewIntervalMs: 9_000, retryIntervalMs: 5_000 },
      /\(9000 \+ 5000\) must be at most 13952/,
    ],
  ])('the error for unsafe timings shows their values and the rule: %s', (_, timings, message) => {
    for (const make of [
      () => new Elector({ store, election: 'e', ...timings }),
      () => new Manager({ store, election: 'e', ...timings }),
    ]) {
      expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
      expect(make).toThrow(message)
    }
  })
})

test('names of 256 bytes, the shortest and the longest lease, and undefined options are accepted', () => {
  const name = 'é'.repeat(128)
  for (const leaseDurationMs of [100, 2 ** 31 - 1]) {
    expect(() => new Elector({ store, election: name, identity: name, leaseDurationMs })).not.toThrow()
  }
  const defaults = Object.fromEntries(Object.keys({ ...elector }).map((option) => [option, undefined]))
  expect(() => new Elector({ ...defaults, store, election: 'e' })).not.toThrow()
  expect(() => new Manager({ ...defaults, store, election: '🦊 名前' })).not.toThrow()
})
