/** Checks of the log. Each one runs on the library and on the mutants that it must catch. */
import assert from 'node:assert/strict'
import type { Log } from '../../src/index.ts'
import { faultyStore, type FaultyStore } from '../faulty-store.ts'

/** The modules that the checks use, all from the same copy of the library. */
export interface Library {
  readonly index: typeof import('../../src/index.ts')
  readonly jobs: typeof import('../../src/jobs/index.ts')
  readonly ttl: typeof import('../../src/store-kit/memory-ttl-storage.ts')
  readonly testing: typeof import('../../../testing/src/index.ts')
}

export const libraryFiles = {
  index: 'index.ts',
  jobs: 'jobs/index.ts',
  ttl: 'store-kit/memory-ttl-storage.ts',
  testing: '@tenure/testing',
} satisfies Record<keyof Library, string>

const minute = 60_000

/** Replaces the console while `run` runs, and returns the first line of each message. */
async function printed(run: () => Promise<void>): Promise<string[]> {
  const lines: string[] = []
  const { warn, error } = console
  const keep = (message: string) => void lines.push(message.split('\n')[0] ?? '')
  Object.assign(console, { warn: keep, error: keep })
  try {
    await run()
  } finally {
    Object.assign(console, { warn, error })
  }
  return lines
}

export function memoryLog(): { readonly lines: string[]; readonly log: Log } {
  const lines: string[] = []
  const keep = (level: string) => (message: string) => void lines.push(`${level} ${message}`)
  return { lines, log: { info: keep('info'), warn: keep('warn'), error: keep('error') } }
}

function scene({ index, testing }: Library): { clock: ReturnType<typeof testing.fakeClock>; store: FaultyStore } {
  const clock = testing.fakeClock()
  return { clock, store: faultyStore(index.memoryStore({ clock }), clock) }
}

const refused = 'connect ECONNREFUSED'

/** The default log covers an outage with a loss, one without, and a long one. It stays silent while all is well. */
async function outages(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const elector = new library.index.Elector({ store, clock, election: 'payments', identity: 'a' })
  const failedAtMs: number[][] = []
  const answeredAtMs: number[] = []
  const lines = await printed(async () => {
    elector.start()
    await clock.advance(10 * minute)
    for (const [outage, outageMs] of [26_000, 3_000, 100_000].entries()) {
      store.fault = () => {
        ;(failedAtMs[outage] ??= []).push(clock.monotonicMs())
        return 'error'
      }
      await clock.advance(outageMs)
      store.fault = () => void (answeredAtMs[outage] ??= clock.monotonicMs())
      await clock.advance(10 * minute)
    }
    await settled(elector.stop(), clock)
  })
  const lost = `tenure: lost leadership of "payments" in term N: the lease was not renewed in time. The last error from the store: ${refused}`
  const failed = `tenure: renewing "payments" failed: ${refused}`
  assert.deepEqual(lines.map(withoutNumbers), [
    failed,
    lost,
    'tenure: the store answers again after N s (N calls for "payments" failed)',
    'tenure: this process leads "payments" again in term N after N s',
    failed,
    'tenure: the store answers again after N s (N calls for "payments" failed)',
    failed,
    lost,
    `tenure: the store still fails after N s: N calls for "payments" failed, the last with: ${refused}`,
    'tenure: the store answers again after N s (N calls for "payments" failed)',
    'tenure: this process leads "payments" again in term N after N s',
  ])
  const [calls = []] = failedAtMs
  const [answeredMs = 0] = answeredAtMs
  const outageSeconds = Math.round((answeredMs - (calls[0] ?? 0)) / 1_000)
  assert.match(lines[2] ?? '', new RegExp(`after ${outageSeconds} s \\(${calls.length} calls`))
}

/** An outage in which reads work is one outage. It ends when a write succeeds or when another process leads. */
async function readableOutages(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const elector = new library.index.Elector({ store, clock, election: 'payments', identity: 'a' })
  const other = new library.index.Elector({ store, clock, election: 'shared', identity: 'b' })
  const standby = new library.index.Elector({ store, clock, election: 'shared', identity: 'a' })
  let cause: unknown
  const lines = await printed(async () => {
    elector.start()
    await clock.advance(minute)
    const { signal } = await elector.waitForLeadership()
    signal.addEventListener('abort', () => ({ cause } = signal.reason))
    store.fault = (verb) => (verb === 'read' ? undefined : 'request-lost')
    await clock.advance(150_000)
    store.fault = () => undefined
    await clock.advance(minute)
    await settled(elector.stop(), clock)
  })
  const failed = 'The store did not answer "VERB" for "payments" within N ms. [TIMEOUT]'
  assert.deepEqual(
    lines.map((line) =>
      withoutNumbers(line)
        .replaceAll(/"(?:renew|acquire|release)"/g, '"VERB"')
        .replace('N min', 'N s'),
    ),
    [
      `tenure: renewing "payments" failed: ${failed}`,
      `tenure: lost leadership of "payments" in term N: the lease was not renewed in time. The last error from the store: ${failed}`,
      `tenure: the store still fails after N s: N calls for "payments" failed, the last with: ${failed}`,
      `tenure: the store still fails after N s: N calls for "payments" failed, the last with: ${failed}`,
      'tenure: the store answers again after N s (N calls for "payments" failed)',
      'tenure: this process leads "payments" again in term N after N s',
    ],
  )
  assert.equal((cause as { code?: string } | undefined)?.code, 'TIMEOUT')
  const handed = await printed(async () => {
    store.fault = (verb) => (verb === 'read' ? undefined : 'error')
    standby.start()
    await clock.advance(10_000)
    store.fault = () => undefined
    other.start()
    await clock.advance(100)
    store.fault = (verb) => (verb === 'read' ? undefined : 'error')
    await clock.advance(10_000)
    store.fault = () => undefined
    await settled(Promise.all([standby.stop(), other.stop()]), clock)
  })
  assert.deepEqual(handed.slice(0, 2).map(withoutNumbers), [
    `tenure: acquiring "shared" failed: ${refused}`,
    'tenure: the store answers again after N s (N calls for "shared" failed)',
  ])
}

/** A job fails every time, and one of its times passes while no process can run it. */
async function failingJob(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const jobs = library.jobs.createJobs({ store, clock, identity: 'a' })
  const lines = await printed(async () => {
    jobs.every({ minutes: 2 }, { name: 'backup' }, () => {
      throw new Error('the disk is full')
    })
    await clock.advance(14.5 * minute)
    store.fault = () => 'error'
    await clock.advance(3 * minute)
    store.fault = () => undefined
    await clock.advance(0.4 * minute)
    await settled(jobs.close(), clock)
  })
  const failures = lines.filter((line) => line.includes('the disk is full'))
  assert.equal(failures.length, 7, 'one line for each run')
  assert.equal(failures[6], 'tenure: The run of "backup" for 2030-01-01T00:14:00.000Z failed: the disk is full')
  const missed = lines.filter((line) => line.includes('was missed'))
  assert.deepEqual(missed, [
    'tenure: The run of "backup" for 2030-01-01T00:16:00.000Z was missed, because no process could start it in time.',
  ])
}

/** Jobs that fail with the same message are each named and counted. */
async function failingJobs(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const { lines, log } = memoryLog()
  const jobs = library.jobs.createJobs({ store, clock, identity: 'a', log })
  const names = ['index', 'stats', 'mail', 'backup', 'sync', 'import', 'export', 'report', 'purge']
  const failed = new Map<string, number>()
  for (const name of names) {
    jobs.every({ seconds: 20 }, { name }, () => {
      failed.set(name, (failed.get(name) ?? 0) + 1)
      throw new Error('the disk is full')
    })
  }
  await clock.advance(90_000)
  await settled(jobs.close(), clock)
  const problems = lines.filter((line) => line.includes('the disk is full'))
  const told = new Map<string, number>()
  for (const line of problems) {
    const counts = /more lines \((.*?)\) like: /.exec(line)?.[1]?.matchAll(/"(.*?)" (\d+)/g)
    for (const [, name = '', count = '1'] of counts ?? [/The run of "(.*?)"/.exec(line) ?? []]) {
      told.set(name, (told.get(name) ?? 0) + Number(count))
    }
  }
  assert.deepEqual([...told].toSorted(), [...failed].toSorted())
  assert.ok(problems.length <= 12, problems.join('\n'))
}

/** Many electors lose their store at once. They write few lines, and the counts add up. */
async function manyElectors(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const count = 50
  const { lines, log } = memoryLog()
  const electors = Array.from({ length: count }, (_, n) => {
    const elector = new library.index.Elector({ store, clock, election: `tenant-${n}`, identity: 'a', log })
    elector.start()
    return elector
  })
  await clock.advance(minute)
  lines.splice(0)
  store.fault = () => 'error'
  const outageMs = 90_000
  await clock.advance(outageMs)
  store.fault = () => undefined
  await clock.advance(2 * minute)
  const kinds = 5
  const problems = lines.filter((line) => !line.startsWith('info'))
  assert.ok(problems.length <= kinds * (5 + 1) * Math.ceil(outageMs / minute), problems.join('\n'))
  for (const kind of ['renewing', 'lost leadership', 'still fails', 'answers again']) {
    const ofKind = lines.filter((line) => line.includes(kind))
    const counted = ofKind.map((line) => Number(/in the last .*?, (\d+) more/.exec(line)?.[1] ?? 1))
    assert.equal(
      counted.reduce((sum, more) => sum + more, 0),
      count,
      kind,
    )
  }
  await settled(Promise.all(electors.map((elector) => elector.stop())), clock)
}

/** Electors that start and stop repeatedly also write a bounded number of lines. */
async function shortLives(library: Library): Promise<void> {
  const { clock, store } = scene(library)
  const { lines, log } = memoryLog()
  store.fault = () => 'error'
  for (let n = 0; n < 200; n++) {
    const elector = new library.index.Elector({ store, clock, election: `call-${n}`, identity: 'a', log })
    elector.start()
    await clock.advance(50)
    await settled(elector.stop(), clock, 10)
  }
  assert.ok(lines.length <= 7, `${lines.length} lines`)
  assert.ok(
    lines.some((line) => line.includes('more line')),
    'the first stop writes the count',
  )
}

/** A log that fails in any way, in any style, does not affect the elector. */
async function brokenLogs(library: Library): Promise<void> {
  for (const misbehave of misbehaviors) {
    const log = { info: misbehave, warn: misbehave, error: misbehave }
    const { clock, store } = scene(library)
    const elector = new library.index.Elector({ store, clock, election: 'e', identity: 'a', log })
    elector.start()
    await clock.advance(minute)
    store.fault = () => 'error'
    await clock.advance(minute)
    store.fault = () => undefined
    await clock.advance(minute)
    assert.equal(elector.isLeader(), true)
    await settled(elector.stop(), clock)
  }
}

/** In every style, the cause of a loss is the last store error. */
async function causes(library: Library): Promise<void> {
  const { lead, LeaderElector, Manager, createElections } = library.index
  const styles: ((at: ReturnType<typeof scene>) => Promise<AbortSignal>)[] = [
    ({ clock, store }) =>
      new Promise((resolve) => {
        const options = { store, clock, election: 'e', identity: 'a', log: false as const, onLoss: 'throw' as const }
        lead(options, ({ signal }) => {
          resolve(signal)
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        }).catch(() => undefined)
      }),
    async ({ clock, store }) => {
      const lease = new Manager({ store, clock, election: 'e', identity: 'a', log: false }).start()
      return (await lease.waitForLeadership()).signal
    },
    ({ clock, store }) =>
      new Promise((resolve) => {
        const named = { leaseName: 'e', leaseNamespace: 'n', identity: 'a', log: false as const }
        void new LeaderElector({ ...named, store, clock, callbacks: { onStartedLeading: resolve } }).run()
      }),
    async ({ clock, store }) => {
      const inner = library.ttl.memoryTtlStorage<string, string>({ clock })
      const compareAndSwap: typeof inner.compareAndSwap = (...args) => {
        if (store.fault('renew', 'e')) throw new Error(refused)
        return inner.compareAndSwap(...args)
      }
      const elections = createElections<string, string>({ storage: { ...inner, compareAndSwap }, clock, log: false })
      const signal = await elections.acquireLeadership('e', 'a', { durationMs: 15_000 })
      assert.ok(signal)
      return signal
    },
  ]
  for (const begin of styles) {
    const at = scene(library)
    const begun = begin(at)
    await at.clock.advance(100)
    const signal = await begun
    at.store.fault = () => 'error'
    await at.clock.advance(15_000)
    assert.equal(signal.reason?.reason, 'expired')
    assert.equal(signal.reason?.cause?.message, refused)
  }
}

/** A storage whose methods return plain values instead of promises, as document 001 defines them. */
async function plainAnswers(library: Library): Promise<void> {
  const clock = library.testing.fakeClock()
  const entries = new Map<string, { value: string; untilMs: number }>()
  const find = (key: string) => {
    const entry = entries.get(key)
    return entry && entry.untilMs > clock.monotonicMs() ? entry : undefined
  }
  const put = (key: string, value: string, ms: number) =>
    !!entries.set(key, { value, untilMs: clock.monotonicMs() + ms })
  let isDown = false
  const answer = (change: () => boolean): boolean => {
    if (isDown) throw new Error('the storage is down')
    return change()
  }
  const { lines, log } = memoryLog()
  const elections = library.index.createElections<string, string>({
    clock,
    log,
    storage: {
      insertIfNotExist: (key, value, ms) => answer(() => !find(key) && put(key, value, ms)),
      compareAndSwap: (key, from, to, ms) => answer(() => find(key)?.value === from && put(key, to, ms)),
      compareAndDelete: (key, value) => answer(() => find(key)?.value === value && entries.delete(key)),
    },
  })
  const held = await elections.acquireLeadership('k', 'v1', { durationMs: 5_000 })
  assert.equal(await elections.acquireLeadership('k', 'v2', { durationMs: 5_000 }), undefined)
  await clock.advance(minute)
  assert.equal(held?.aborted, false, 'the lease was not renewed')
  isDown = true
  await clock.advance(5_000)
  assert.equal(held?.aborted, true)
  isDown = false
  assert.ok(await elections.acquireLeadership('k', 'v3', { durationMs: 5_000 }))
  await elections.releaseLeadership('k')
  assert.equal(find('k'), undefined)
  assert.ok(!lines.some((line) => line.includes('in term')), 'a line mentions a term')
  assert.deepEqual(lines.filter((line) => !line.startsWith('info')).map(withoutNumbers), [
    'warn tenure: renewing "k" failed: the storage is down',
    'error tenure: lost leadership of "k": the lease was not renewed in time. The last error from the store: the storage is down',
    'warn tenure: this process leads "k" again after N s',
    'warn tenure: the store answers again after N s (N calls for "k" failed)',
  ])
}

/** Safe timings are accepted, and omitted timings are derived from them. */
async function givenTimings(library: Library): Promise<void> {
  const { Manager, LeaderElector } = library.index
  const { clock, store } = scene(library)
  const timings = { leaseDurationMs: 10_000, renewIntervalMs: 5_000, retryIntervalMs: 2_000 }
  assert.doesNotThrow(() => new Manager({ store, clock, ...named, ...timings }))
  const names = { leaseName: 'e', leaseNamespace: 'n', identity: 'a', log: false as const }
  const callbacks = { onStartedLeading() {} }
  const elector = new LeaderElector({ ...names, store, clock, leaseDurationMs: 60_000, callbacks })
  const end = new AbortController()
  const run = elector.run({ signal: end.signal })
  await clock.advance(1_900)
  store.fault = () => 'error'
  await clock.advance(10_000)
  assert.equal(elector.isLeader(), true, 'the deadline is a retry period and 10 s after the last success')
  await clock.advance(200)
  assert.equal(elector.isLeader(), false)
  store.fault = () => undefined
  end.abort()
  await settled(run, clock)
}

/** Ways in which a listener can fail. */
export const misbehaviors: readonly (() => unknown)[] = [
  () => {
    throw new Error('a listener throws')
  },
  () => Promise.reject(new Error('a listener rejects')),
  () => ({
    // oxlint-disable-next-line unicorn/no-thenable
    then() {
      throw new Error('a thenable throws')
    },
  }),
  () => ({
    // oxlint-disable-next-line unicorn/no-thenable
    get then() {
      throw new Error('a getter throws')
    },
  }),
]

type Misbehave = () => never
type Scene = ReturnType<typeof scene>
type Begin = (library: Library, at: Scene, misbehave: Misbehave) => (() => unknown) | Promise<() => unknown>

const named = { election: 'e', identity: 'a' }
const failingLog = (misbehave: Misbehave): Log => ({ info: misbehave, warn: misbehave, error: misbehave })

/** Every listener of every style, alone and together with the listener that receives its errors. */
const listeners: Readonly<Record<string, Begin>> = {
  'Elector: onEvent': ({ index }, at, onEvent) =>
    started(new index.Elector({ ...at, ...named, observer: { onEvent } })),
  'Elector: onCall': ({ index }, at, onCall) => started(new index.Elector({ ...at, ...named, observer: { onCall } })),
  'Elector: onEvent and log': ({ index }, at, onEvent) =>
    started(new index.Elector({ ...at, ...named, observer: { onEvent }, log: failingLog(onEvent) })),
  'lead: onEvent, onCall and log': ({ index }, at, misbehave) => {
    const end = new AbortController()
    const observer = { onEvent: misbehave, onCall: misbehave }
    const options = { ...at, ...named, observer, log: failingLog(misbehave), signal: end.signal }
    const led = index.lead(
      options,
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
    )
    return () => {
      end.abort()
      return led.catch(() => undefined)
    }
  },
  'Manager: onError': ({ index }, at, onError) => {
    const manager = new index.Manager({ ...at, ...named })
    manager.onError = onError
    return started(manager)
  },
  'Manager: onError and onEvent': ({ index }, at, misbehave) => {
    const manager = new index.Manager({ ...at, ...named, observer: { onEvent: misbehave } })
    manager.onError = misbehave
    return started(manager)
  },
  'LeaderElector: every callback': ({ index }, at, misbehave) => {
    const callbacks = { onStartedLeading: misbehave, onStoppedLeading: misbehave, onNewLeader: misbehave }
    return running(new index.LeaderElector({ ...at, ...leaseNames, callbacks }))
  },
  'LeaderElector: every callback, onEvent and log': ({ index }, at, misbehave) => {
    const callbacks = { onStartedLeading: misbehave, onStoppedLeading: misbehave, onNewLeader: misbehave }
    const heard = { observer: { onEvent: misbehave, onCall: misbehave }, log: failingLog(misbehave) }
    return running(new index.LeaderElector({ ...at, ...leaseNames, ...heard, callbacks }))
  },
  'createElections: onEvent': (library, at, onEvent) => elections(library, at, { observer: { onEvent } }),
  'createElections: log': (library, at, misbehave) => elections(library, at, { log: failingLog(misbehave) }),
  'createJobs: onJob': (library, at, onJob) => hourly(library, at, { observer: { onJob } }),
  'createJobs: onEvent': (library, at, onEvent) => hourly(library, at, { observer: { onEvent } }),
  'createJobs: onJob, onEvent, onCall and log': (library, at, misbehave) => {
    const observer = { onJob: misbehave, onEvent: misbehave, onCall: misbehave }
    return hourly(library, at, { observer, log: failingLog(misbehave) })
  },
  'followSchedule: tell': async ({ index, jobs }, at, tell) => {
    const elector = new index.Elector({ ...at, ...named, log: false })
    elector.start()
    const schedule: import('../../src/jobs/index.ts').JobSchedule = {
      times: { text: 'each second', latest: (ms) => ms, after: (ms) => ms + 1_000 },
      timezone: undefined,
      next: (_, nowMs) => ({ slotMs: nowMs, waitMs: 0, missedMs: undefined }),
    }
    const perform = () => new Promise<undefined>((resolve) => void at.clock.setTimer(20_000, () => resolve(undefined)))
    const leadership = await elector.waitForLeadership()
    void jobs.followSchedule(leadership, { schedule, clock: at.clock, perform, tell }).catch(() => undefined)
    return () => elector.stop()
  },
  'observe: onError': ({ index }, { clock, store }, onError) => {
    const end = new AbortController()
    void index.observe(store, 'e', { clock, onError, signal: end.signal }).next()
    return () => end.abort()
  },
  'observe: onError and log': ({ index }, { clock, store }, misbehave) => {
    const end = new AbortController()
    const heard = { onError: misbehave, log: failingLog(misbehave) }
    void index.observe(store, 'e', { clock, ...heard, signal: end.signal }).next()
    return () => end.abort()
  },
}

const leaseNames = { leaseName: 'e', leaseNamespace: 'n', identity: 'a' }

function started(elector: { start(): unknown; stop(): Promise<void> }): () => unknown {
  elector.start()
  return () => elector.stop().catch(() => undefined)
}

function running(elector: { run(options: { signal: AbortSignal }): Promise<void> }): () => unknown {
  const end = new AbortController()
  const run = elector.run({ signal: end.signal })
  return () => {
    end.abort()
    return run
  }
}

async function elections(
  { index, ttl }: Library,
  { clock, store }: Scene,
  more: Partial<import('../../src/index.ts').ElectionsOptions<string, string>>,
): Promise<() => unknown> {
  const inner = ttl.memoryTtlStorage<string, string>({ clock })
  const compareAndSwap: typeof inner.compareAndSwap = (...args) => {
    if (store.fault('renew', 'e')) throw new Error(refused)
    return inner.compareAndSwap(...args)
  }
  const all = index.createElections<string, string>({ storage: { ...inner, compareAndSwap }, clock, ...more })
  await all.acquireLeadership('k', 'v', { durationMs: 15_000 })
  await all.releaseLeadership('not held')
  return () => all.close()
}

function hourly(
  { jobs }: Library,
  { clock, store }: Scene,
  more: Partial<import('../../src/jobs/index.ts').JobsOptions>,
): () => unknown {
  const all = jobs.createJobs({ store, clock, identity: 'a', ...more })
  all.every({ seconds: 10 }, { name: 'sync', maxRuntimeMs: 1_000, retries: 1 }, () => Promise.reject(new Error('no')))
  return () => all.close()
}

/** Runs one style through an outage and returns whether it ended. */
async function live(library: Library, begin: Begin, misbehave: Misbehave): Promise<boolean> {
  const at = scene(library)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const begun = begin(library, at, misbehave)
  await turn()
  const end = await Promise.race([begun, turn()])
  if (typeof end !== 'function') return false
  await at.clock.advance(30_000)
  at.store.fault = () => 'error'
  await at.clock.advance(30_000)
  at.store.fault = () => undefined
  await at.clock.advance(30_000)
  let isEnded = false
  void Promise.resolve(end()).then(() => (isEnded = true))
  await at.clock.advance(minute)
  await turn()
  return isEnded
}

/** No failure of a listener reaches the process. An uncaught error would end it. */
async function brokenListeners(library: Library): Promise<void> {
  await printed(async () => {
    for (const [name, begin] of Object.entries(listeners)) {
      for (const misbehave of misbehaviors) {
        let isEnded: unknown
        const escaped = await rejections(async () => {
          isEnded = await live(library, begin, misbehave as Misbehave).catch((error: Error) => error.message)
        })
        const what = `${name} (${String(misbehave)})`
        assert.deepEqual(escaped, [], what)
        assert.equal(isEnded, true, what)
      }
    }
  })
}

/** Returns the uncaught errors and unhandled rejections during `run`. Each of them would end the process. */
async function rejections(run: () => Promise<void>): Promise<string[]> {
  const events = ['unhandledRejection', 'uncaughtException'] as const
  const others = events.map((event) => process.listeners(event as 'uncaughtException'))
  const escaped: string[] = []
  for (const event of events) {
    process.removeAllListeners(event)
    process.on(event, (error: unknown) => void escaped.push(String(error)))
  }
  try {
    await run()
  } finally {
    for (const [at, event] of events.entries()) {
      process.removeAllListeners(event)
      for (const listener of others[at] ?? []) process.on(event as 'uncaughtException', listener)
    }
  }
  return escaped
}

/** Errors whose stack, name, message, or errors cannot be read as usual. */
function oddErrors(): readonly unknown[] {
  const withProperty = (error: Error, name: string, property: PropertyDescriptor) =>
    Object.defineProperty(error, name, property)
  const get = () => {
    throw new Error('a getter throws')
  }
  return [
    withProperty(new Error('odd'), 'stack', { value: [{ line: 1 }] }),
    withProperty(new Error('odd'), 'stack', { value: null }),
    withProperty(new Error('odd'), 'stack', { get }),
    withProperty(new Error('odd'), 'name', { get }),
    withProperty(new Error('odd'), 'message', { get }),
    withProperty(new AggregateError([]), 'errors', { get }),
    withProperty(new AggregateError([]), 'errors', { value: 1 }),
    new Proxy(new Error('odd'), { getPrototypeOf: get }),
  ]
}

/** Work and job runs that fail with odd errors are reported like any other failure, and nothing stays pending. */
async function oddFailures(library: Library): Promise<void> {
  for (const [at, odd] of oddErrors().entries()) {
    const { clock, store } = scene(library)
    const { lines, log } = memoryLog()
    const elector = new library.index.Elector({ store, clock, ...named, log })
    const jobs = library.jobs.createJobs({ store, clock, identity: 'a', log })
    jobs.every({ seconds: 10 }, { name: 'sync' }, () => Promise.reject(odd))
    elector.start()
    await clock.advance(100)
    const leadership = await elector.waitForLeadership()
    const escaped = await rejections(async () => {
      leadership.waitUntil(Promise.reject(odd))
      await clock.advance(12_000)
      await new Promise((resolve) => setImmediate(resolve))
    })
    assert.deepEqual(escaped, [], `error ${at}`)
    assert.equal(elector.explain().pendingWork, 0, `error ${at}`)
    for (const text of ['error tenure: Work of "e" in term 1 failed: ', 'error tenure: The run of "sync" for ']) {
      assert.equal(lines.filter((line) => line.startsWith(text)).length, 1, `error ${at}: ${lines.join('\n')}`)
    }
    await settled(Promise.all([elector.stop(), jobs.close()]), clock)
  }
}

export const checks = {
  brokenListeners,
  oddFailures,
  outages,
  readableOutages,
  failingJob,
  failingJobs,
  manyElectors,
  shortLives,
  brokenLogs,
  causes,
  plainAnswers,
  givenTimings,
}

/** Advances the clock, then waits for the promise. */
async function settled(promise: Promise<unknown>, clock: { advance(ms: number): Promise<void> }, ms = minute) {
  await clock.advance(ms)
  await promise
}

function withoutNumbers(line: string): string {
  return line.replaceAll(/\d+(\.\d+)?/g, 'N').replace('one call', 'N calls')
}
