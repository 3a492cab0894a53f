/** Checks of jobs in virtual time. They run on the library and on its mutants. */
import assert from 'node:assert/strict'
import type * as jobsLibrary from '../../src/jobs/index.ts'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { Elector, isTenureError, type ElectionEvent } from '../../src/index.ts'
import { call, follow, type Outcome } from '../promise-outcome.ts'
import { stallable } from '../stallable-clock.ts'
import { fleet, type Fleet } from './fleet.ts'

type Library = typeof jobsLibrary

const minute = 60_000
const lease = 15_000

const noteIn = async (on: Fleet, name: string) => jobStateOf((await on.memory.read(name, call))?.checkpoint ?? '')
const codeOf = ({ error }: Outcome<unknown>) => (isTenureError(error) ? error.code : error)
const silent = { onEvent: () => undefined }

/** A process whose work blocks the event loop past its lease and then succeeds. */
async function blockedRun(library: Library, observer?: jobsLibrary.JobObserver) {
  const on = fleet(library)
  const clock = stallable(on.clock)
  const a = on.member('a', { clock, ...(observer && { observer }) })
  let unblock = (): void => undefined
  let runs = 0
  const called = follow(
    a.jobs.once('migrate', async () => {
      runs += 1
      clock.stall()
      await new Promise<void>((resolve) => (unblock = resolve))
    }),
  )
  await on.clock.advance(100)
  await on.clock.advance(11_000)
  // The work succeeds before a timer can end its leadership.
  unblock()
  await on.clock.advance(0)
  clock.resume()
  return { on, a, called, runs: () => runs }
}

export const checks: Readonly<Record<string, (library: Library) => Promise<void>>> = {
  async 'once() does not repeat work that succeeded while the event loop was blocked past the lease'(library) {
    const { on, called, runs } = await blockedRun(library)
    await on.clock.advance(2 * lease)
    assert.equal(runs(), 1)
    assert.equal(called.value, 'ran')
    const note = await noteIn(on, 'migrate')
    assert.ok(note?.doneMs)
    assert.deepEqual(
      note.runs.map(({ result, term, error }) => ({ result, term, error })),
      [{ result: 'succeeded', term: 1, error: undefined }],
    )
    const later = follow(on.member('b').jobs.once('migrate', on.work('b')))
    await on.clock.advance(100)
    assert.equal(later.value, 'already-done')
    assert.equal(on.clock.timers, 0)
  },

  async 'once() repeats work that returned early because its signal aborted after a loss'(library) {
    const on = fleet(library)
    const a = on.member('a')
    let runs = 0
    const called = follow(
      a.jobs.once('migrate', async ({ signal }) => {
        runs += 1
        if (runs > 1) return
        a.link.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
        while (!signal.aborted) await new Promise((resolve) => on.clock.setTimer(100, () => resolve(undefined)))
        a.link.fault = () => undefined
      }),
    )
    await on.clock.advance(4 * lease)
    assert.equal(runs, 2)
    assert.equal(called.value, 'ran')
  },

  async "once() returns 'ran' even when another process also ran the work before the success was recorded"(library) {
    const on = fleet(library)
    const a = on.member('a')
    const first = follow(
      a.jobs.once('migrate', async (context) => {
        await on.work('a')(context)
        a.crash()
      }),
    )
    await on.clock.advance(1_000)
    const second = follow(on.member('b').jobs.once('migrate', on.work('b', 5_000)))
    await on.clock.advance(lease + 1_000)
    a.link.fault = () => undefined
    a.link.silentWatch = false
    await on.clock.advance(2 * lease)
    assert.equal(second.value, 'ran')
    assert.equal(first.value, 'ran')
    assert.deepEqual(
      on.ran.map(({ by }) => by),
      ['a', 'b'],
    )
  },

  async "once() returns 'ran' only after the store has recorded the success"(library) {
    const on = fleet(library)
    const a = on.member('a')
    const called = follow(
      a.jobs.once('migrate', async (context) => {
        await on.work('a')(context)
        // Leadership can be acquired, but nothing can be recorded.
        a.link.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
      }),
    )
    await on.clock.advance(4 * lease)
    assert.equal(called.state, 'pending')
    assert.equal((await noteIn(on, 'migrate'))?.doneMs, undefined)
    a.link.fault = () => undefined
    await on.clock.advance(2 * lease)
    assert.equal(called.value, 'ran')
    assert.ok((await noteIn(on, 'migrate'))?.doneMs)
    assert.equal(on.ran.length, 1)
  },

  async 'a run that was lost because the event loop was blocked is reported with that reason'(library) {
    const { on, a } = await blockedRun(library)
    await on.clock.advance(2 * lease)
    const ended = a.events.find(({ type }) => type === 'ended')
    assert.ok(ended?.type === 'ended')
    assert.equal(ended.run.result, 'lost')
    assert.match(
      String(ended.run.error),
      /this process did not run for at least 1[01]\d{3} ms: its event loop was blocked/,
    )
  },

  async 'a lost run of once() is reported to onEvent when no job observer is set'(library) {
    const events: ElectionEvent[] = []
    const { on } = await blockedRun(library, { onEvent: (event) => void events.push(event) })
    await on.clock.advance(2 * lease)
    const texts = events.map((event) => (event.type === 'error' ? String(event.error) : ''))
    assert.match(texts.join('\n'), /The run of "migrate" for 2030-01-01T\S+ was lost: .* its event loop was blocked/)
  },

  async 'a run does not begin when leadership ended while the run was being recorded'(library) {
    for (const ends of ['stall', 'close'] as const) {
      const on = fleet(library)
      let aheadMs = 0
      const ahead = (read: () => number) => () => read() + aheadMs
      const { monotonicMs, machineMs, bootMs, wallMs } = on.clock
      const clock = {
        ...on.clock,
        monotonicMs: ahead(monotonicMs),
        machineMs: ahead(machineMs),
        bootMs: ahead(bootMs),
        wallMs: ahead(wallMs),
      }
      let closed: Promise<void> | undefined
      const onEvent = ({ type }: ElectionEvent) => {
        // The store has recorded the run, but the caller has not been notified yet.
        if (type !== 'renewed' || closed || aheadMs > 0) return
        if (ends === 'stall') aheadMs = 20_000
        else closed = a.jobs.close()
      }
      const a = on.member('a', { clock, observer: { onEvent, onJob: () => undefined } })
      const called = follow(a.jobs.tryRun('import', on.work('a')))
      await on.clock.advance(lease)
      assert.equal((await noteIn(on, 'import'))?.runs.length, 1)
      assert.deepEqual(on.ran, [])
      assert.equal(codeOf(called), 'LEADERSHIP_LOST')
      await on.close()
    }
  },

  async 'a former shared leader stops campaigning for a job'(library) {
    const on = fleet(library)
    const [a, b] = ['a', 'b'].map((name) => on.member(name, { sharedLeader: 'all' }))
    assert.ok(a && b)
    a.jobs.every({ minutes: 1 }, { name: 'sync', missed: 'run-once' }, on.work('a'))
    await on.clock.advance(100)
    b.jobs.every({ minutes: 1 }, { name: 'sync', missed: 'run-once' }, on.work('b'))
    const other = new Elector({ store: on.memory, election: 'sync', identity: 'c', clock: on.clock, observer: silent })
    await on.clock.advance(minute / 2)
    other.start()
    // The job is due, and another process holds its lease.
    await on.clock.advance(minute / 2 + 1_000)
    let calls = 0
    a.link.fault = (_, election) => {
      if (election === 'sync') calls += 1
      return election === 'all' ? 'error' : undefined
    }
    await on.clock.advance(lease)
    calls = 0
    await on.clock.advance(4 * lease)
    await Promise.all([other.stop(), on.clock.advance(lease)])
    assert.equal(calls, 0)
    assert.ok(on.ran.length > 0)
    assert.ok(on.ran.every(({ by }) => by === 'b'))
    a.link.fault = () => undefined
    await on.close()
  },

  async 'a call that does not wait rejects within one lease when the store refuses every write'(library) {
    const on = fleet(library)
    const a = on.member('a')
    a.link.fault = (verb) => (verb === 'read' ? undefined : 'error')
    const calls: Outcome<unknown>[] = [
      follow(a.jobs.tryRun('import', on.work('a'))),
      follow(a.jobs.atMostOncePer({ hours: 1 }, 'hourly', on.work('a'))),
    ]
    await on.clock.advance(lease)
    assert.deepEqual(calls.map(codeOf), ['BACKEND_UNAVAILABLE', 'BACKEND_UNAVAILABLE'])
    assert.equal(on.clock.timers, 0)
  },

  async 'a call waits for another process that leads even when its own writes are refused'(library) {
    const on = fleet(library)
    const a = on.member('a')
    delete a.link.watch
    a.link.fault = (verb) => (verb === 'read' ? undefined : 'error')
    const called = follow(a.jobs.atMostOncePer({ hours: 1 }, 'hourly', on.work('a')))
    await on.clock.advance(lease / 2)
    const other = new Elector({
      store: on.memory,
      election: 'hourly',
      identity: 'b',
      clock: on.clock,
      observer: silent,
    })
    other.start()
    await on.clock.advance(2 * lease)
    // From here on, one call in three fails, as on an unreliable network.
    let count = 0
    a.link.fault = (verb) => (verb !== 'read' || (count += 1) % 3 === 0 ? 'error' : undefined)
    await on.clock.advance(4 * lease)
    assert.equal(called.state, 'pending')
    a.link.fault = () => undefined
    await Promise.all([other.stop(), on.clock.advance(lease)])
    assert.equal(called.value, 'ran')
  },
}
