import { describe, expect, onTestFinished, test, vi } from 'vitest'
import * as index from '../../src/index.ts'
import * as jobs from '../../src/jobs/index.ts'
import * as ttl from '../../src/stores/memory-ttl.ts'
import * as testing from '../../src/testing/index.ts'
import { faultyStore } from '../faulty-store.ts'
import { checks, memoryLog, type Library } from './checks.ts'

const library: Library = { index, jobs, ttl, testing }
const { Elector, LeaderElector, Manager, memoryStore } = index

/** What is printed on standard error from now on. */
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

describe('with the defaults', () => {
  test('each outage, the loss of leadership and each recovery are printed', () => checks.outages(library))

  test('an outage in which reads work ends when a write succeeds, or when another process leads', () =>
    checks.readableOutages(library))

  test('every failed and every missed run of a job is printed', () => checks.failingJob(library))

  test('nine jobs that fail with the same words are all named in few lines', () => checks.failingJobs(library))

  test('work that failed is printed with its stack', async () => {
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

  test('a loss without a failed call is printed without an error of the store', async () => {
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

  test('an observer hears of everything, and its own mistakes are still printed', async () => {
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

  test('an observer without onEvent hides nothing', async () => {
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

test('a log that is given gets normal life as info lines, beside an observer', async () => {
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

test('fifty electors whose store goes away write few lines, whose counts add up', () => checks.manyElectors(library))

test('electors that start and stop again and again write few lines', () => checks.shortLives(library))

test('a log that throws, rejects or returns a broken thenable changes nothing', () => checks.brokenLogs(library))

test('nothing that any listener of any style throws or rejects with reaches the process', () =>
  checks.brokenListeners(library))

test('work and runs that fail with an error of any shape are reported, and none stays pending', () =>
  checks.oddFailures(library))

test('the cause of a loss is the last error of the store in every style', () => checks.causes(library))

test('createElections works with a storage that answers at once, and reports its errors', () =>
  checks.plainAnswers(library))

test('numbers that are safe are accepted, and those that were not given follow from them', () =>
  checks.givenTimings(library))

test.each([true, 'console', console.log, { warn() {} }])('a log that is %o is refused', (log) => {
  expect(() => new Elector({ ...named, store: memoryStore(), log: log as never })).toThrow(
    /Option "log" is .*, but it must be false, or a log such as console, with the methods info, warn, error/,
  )
})
