import { describe, expect, onTestFinished, test, vi } from 'vitest'
import * as index from '../../src/index.ts'
import * as jobs from '../../src/jobs/index.ts'
import * as ttl from '../../src/store-kit/memory-ttl-storage.ts'
import * as testing from '../../../testing/src/index.ts'
import { faultyStore } from '../faulty-store.ts'
import { checks, memoryLog, type Library } from './checks.ts'

const library: Library = { index, jobs, ttl, testing }
const { Elector, LeaderElector, Manager, memoryStore } = index

/** Collects what is printed on standard error until the test ends. */
function listen(): string[] {
  const lines: string[] = []
  for (const method of ['warn', 'error'] as const) {
    const spy = vi.spyOn(console, method).mockImplementation((line) => void lines.push(line))
    onTestFinished(() => spy.mockRestore())
  }
  return lines
}

function scene() {
  const clock = testing.fakeClock()
  return { clock, store: faultyStore(memoryStore({ clock }), clock) }
}

const named = { election: 'e', identity: 'a' }

describe('the default log', () => {
  test('the default log prints each outage, the loss of leadership, and each recovery', () => checks.outages(library))

  test('the default log ends an outage in which reads work when a write succeeds or another process leads', () =>
    checks.readableOutages(library))

  test('the default log prints every failed and every missed run of a job', () => checks.failingJob(library))

  test('the default log names each of nine jobs that fail with the same message, in few lines', () =>
    checks.failingJobs(library))

  test('the default log prints failed work with its stack', async () => {
    const lines = listen()
    const { clock, store } = scene()
    const stop = new AbortController()
    const elector = new LeaderElector({
      store,
      clock,
      leaseName: 'my-app',
      leaseNamespace: 'default',
      identity: 'pod-a',
      callbacks: { onStartedLeading: () => Promise.reject(new Error('the cellar is flooded')) },
    })
    const run = elector.run({ signal: stop.signal })
    await clock.advance(100)
    stop.abort()
    await clock.advance(100)
    await run
    expect(lines).toEqual([
      expect.stringMatching(
        /^tenure: Work of "default\/my-app" in term 1 failed: the cellar is flooded\nError: .*\n +at /,
      ),
    ])
  })

  test('the default log prints a loss without a store error when no call failed', async () => {
    const lines = listen()
    const { clock, store } = scene()
    const elector = new Elector({ ...named, store, clock })
    elector.start()
    await clock.advance(1_000)
    clock.sleep(60_000)
    await clock.advance(2_000)
    expect(lines[0]).toMatch(/lost leadership of "e" in term 1: the lease was not renewed in time/)
    void elector.stop()
    await clock.advance(1_000)
  })

  test('an observer replaces the default log, but its own errors are still printed', async () => {
    const lines = listen()
    const { clock, store } = scene()
    const elector = new Elector({
      ...named,
      store,
      clock,
      observer: {
        onEvent(event) {
          if (event.type === 'lost') throw new Error('a bad listener')
        },
      },
    })
    elector.start()
    await clock.advance(1_000)
    store.fault = () => 'error'
    await clock.advance(30_000)
    expect(lines).toEqual([expect.stringMatching(/^tenure: The observer of "e" failed: a bad listener\n/)])
    void elector.stop()
    await clock.advance(60_000)
  })

  test('an observer without onEvent does not replace the default log', async () => {
    const lines = listen()
    const { clock, store } = scene()
    const manager = new Manager({ ...named, store, clock, observer: { onCall() {} } })
    store.fault = () => 'error'
    manager.start()
    await clock.advance(1_000)
    expect(lines).toEqual(['tenure: acquiring "e" failed: connect ECONNREFUSED'])
    void manager.stop()
    await clock.advance(60_000)
  })
})

test('log: false prints nothing in any style', async () => {
  const lines = listen()
  const { clock, store } = scene()
  const elector = new Elector({ ...named, store, clock, log: false, observer: { onEvent: () => expect.fail('mine') } })
  const all = jobs.createJobs({ store, clock, identity: 'a', log: false })
  all.every({ minutes: 1 }, { name: 'sync' }, () => Promise.reject(new Error('no')))
  elector.start()
  await clock.advance(120_000)
  store.fault = () => 'error'
  await clock.advance(120_000)
  void elector.stop()
  void all.close()
  await clock.advance(60_000)
  expect(lines).toEqual([])
})

test('a custom log gets normal transitions as info lines, even if there is an observer', async () => {
  const { clock, store } = scene()
  const { lines, log } = memoryLog()
  const elector = new Elector({ ...named, store, clock, log, observer: { onEvent() {} } })
  const standby = new Elector({ election: 'e', identity: 'b', store, clock, log: false })
  elector.start()
  await clock.advance(1_000)
  standby.start()
  const stepped = elector.stepDown()
  await clock.advance(10_000)
  await stepped
  expect(lines).toEqual([
    'info tenure: this process leads "e" in term 1',
    'info tenure: leadership of "e" in term 1 ended: this elector stepped down',
    'info tenure: "b" leads "e" in term 2',
  ])
  void Promise.all([elector.stop(), standby.stop()])
  await clock.advance(60_000)
})

test('fifty electors that lose their store write few lines, with counts that add up', () =>
  checks.manyElectors(library))

test('electors that start and stop repeatedly write few lines', () => checks.shortLives(library))

test('a log that throws, rejects, or returns a broken thenable does not affect the elector', () =>
  checks.brokenLogs(library))

test('no error from a listener of any style reaches the process', () => checks.brokenListeners(library))

test('a failure with an error of any shape is reported, and no work stays pending', () => checks.oddFailures(library))

test('the cause of a loss is the last store error in every style', () => checks.causes(library))

test('createElections works with a storage that answers synchronously, and reports its errors', () =>
  checks.plainAnswers(library))

test('safe timings are accepted, and omitted timings are derived from them', () => checks.givenTimings(library))

test.each([true, 'console', console.log, { warn() {} }])('Elector rejects a log that is %o', (log) => {
  expect(() => new Elector({ ...named, store: memoryStore(), log: log as never })).toThrow(
    /Option "log" is .*, but it must be false, or a log such as console, with the methods info, warn, error/,
  )
})
