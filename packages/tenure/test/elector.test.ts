import { getEventListeners } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import {
  Elector,
  isTenureError,
  memoryStore,
  TenureError,
  type ElectionEvent,
  type ElectorOptions,
} from '../src/index.ts'
import { fakeClock, type FakeClock } from '../src/testing/index.ts'
import { wire } from './wire.ts'

const lease = 15_000
const call = { signal: new AbortController().signal }

function scene({ watch, ...options }: Partial<ElectorOptions> & { watch?: boolean | undefined } = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const link = wire(memory, { watch })
  const events: ElectionEvent[] = []
  const make = (more: Partial<ElectorOptions> = {}) =>
    new Elector({
      store: link.store,
      election: 'e',
      identity: 'a',
      clock,
      observer: { onEvent: (event) => void events.push(event) },
      ...options,
      ...more,
    })
  return { clock, memory, link, events, make, elector: make() }
}

async function leading(options: Parameters<typeof scene>[0] = {}) {
  const s = scene(options)
  s.elector.start()
  await s.clock.advance(0)
  return { ...s, leadership: await s.elector.waitForLeadership() }
}

async function stopAndCheck(elector: Elector, clock: FakeClock): Promise<void> {
  const stopped = elector.stop()
  await clock.advance(60_000)
  await stopped
  expect(clock.timers).toBe(0)
}

describe('an elector', () => {
  test('leads alone, and goes on leading', async () => {
    const { elector, clock, memory } = await leading()
    for (let minute = 0; minute < 60; minute += 1) {
      await clock.advance(60_000)
      expect(elector.isLeader()).toBe(true)
    }
    expect((await memory.read('e', call))?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('tells gain and loss in order: new-leader, elected, lost', async () => {
    const { elector, clock, events } = await leading()
    await stopAndCheck(elector, clock)
    const types = events.map(({ type }) => type).filter((type) => type !== 'renewed')
    expect(types).toEqual(['new-leader', 'elected', 'lost'])
  })

  test('starts once', async () => {
    const { elector, clock } = await leading()
    expect(() => elector.start()).toThrow(/was started or stopped before/)
    await stopAndCheck(elector, clock)
    expect(() => elector.start()).toThrow(/was started or stopped before/)
  })

  test('stops at once if the signal has already aborted, and when it aborts', async () => {
    const first = scene()
    first.elector.start({ signal: AbortSignal.abort() })
    await first.elector.stop()
    expect(first.link.calls).toEqual([])
    const second = scene()
    const controller = new AbortController()
    second.elector.start({ signal: controller.signal })
    await second.clock.advance(0)
    controller.abort()
    await second.elector.stop()
    expect((await second.memory.read('e', call))?.released).toBe(true)
  })

  test('a standby whose acquire is refused while it stops has stopped at once', async () => {
    const { clock, memory, elector } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    elector.start()
    await elector.stop()
    expect(clock.timers).toBe(0)
  })

  test('two of one identity in one process are strangers to each other (C4)', async () => {
    const { elector, make, clock } = await leading()
    const twin = make()
    twin.start()
    await clock.advance(10 * lease)
    expect([elector.isLeader(), twin.isLeader()]).toEqual([true, false])
    await stopAndCheck(elector, clock).catch(() => undefined)
    await clock.advance(lease)
    expect(twin.isLeader()).toBe(true)
    expect(twin.leader()?.term).toBe(2)
    await stopAndCheck(twin, clock)
  })

  test('a restarted process with its old name waits like a stranger and gets a higher term (C3)', async () => {
    const { clock, memory, make } = scene()
    const claim = { election: 'e', holder: 'a', attempt: 'crashed', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const restarted = make()
    restarted.start()
    await clock.advance(lease - 1)
    expect(restarted.isLeader()).toBe(false)
    await clock.advance(1 + lease / 200)
    expect(restarted.isLeader()).toBe(true)
    expect(restarted.leader()?.term).toBe(2)
    await stopAndCheck(restarted, clock)
  })

  test('a standby tries at the moment of expiry, not at the next poll (C1)', async () => {
    const { clock, memory, make, link } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const standby = make()
    standby.start()
    await clock.advance(lease - 1)
    // One try at the start; a watch makes polling needless.
    expect(link.calls.map(({ verb }) => verb)).toEqual(['acquire'])
    await clock.advance(1 + lease / 200)
    expect(standby.isLeader()).toBe(true)
    await stopAndCheck(standby, clock)
  })

  test('a standby tries at once on a watched release', async () => {
    const { elector, make, clock } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(1_000)
    await Promise.all([elector.stop(), clock.advance(lease / 2000)])
    expect(standby.isLeader()).toBe(true)
    await stopAndCheck(standby, clock)
  })

  test('an idle standby with a watch asks at most once per lease duration', async () => {
    const { elector, make, clock, link } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(0)
    const before = link.calls.filter(({ verb }) => verb !== 'renew').length
    await clock.advance(20 * lease)
    expect(link.calls.filter(({ verb }) => verb !== 'renew').length - before).toBeLessThanOrEqual(20)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(standby, clock).catch(() => undefined)
    await stopAndCheck(elector, clock)
  })

  test('campaigns on through any number of failures, and leads when the store is back', async () => {
    const { elector, clock, link, events } = scene()
    link.fate('all', 'fail')
    elector.start()
    await clock.advance(40 * lease)
    expect(events.filter(({ type }) => type === 'error').length).toBeGreaterThan(100)
    link.fate('all', 'pass')
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('different durations in one election: expiry comes from the record (A12)', async () => {
    const { clock, memory, make } = scene()
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    const impatient = make({ leaseDurationMs: 1_000 })
    impatient.start()
    await clock.advance(59_999)
    expect(impatient.isLeader()).toBe(false)
    await clock.advance(500)
    expect(impatient.isLeader()).toBe(true)
    await stopAndCheck(impatient, clock)
  })
})

describe('renewal', () => {
  test('one failed renewal never ends leadership', async () => {
    const { elector, clock, link, events } = await leading()
    link.fate('renew', 'fail')
    await clock.advance(5_000)
    link.fate('renew', 'pass')
    await clock.advance(lease)
    expect(events.filter(({ type }) => type === 'renew-failed')).toHaveLength(1)
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('passing the deadline always ends it, and the signal aborts on time although the store hangs (B1, D13)', async () => {
    const { elector, clock, link, leadership } = await leading()
    link.fate('all', 'lose-request')
    await clock.advance(9_999)
    expect(elector.isLeader()).toBe(true)
    expect(leadership.signal.aborted).toBe(false)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.aborted).toBe(true)
    expect(leadership.signal.reason).toMatchObject({
      code: 'LEADERSHIP_LOST',
      reason: 'expired',
      term: 1,
      election: 'e',
    })
    await stopAndCheck(elector, clock)
  })

  test('a leader that cannot hear stops sending renewals once it stepped down (B3)', async () => {
    const { elector, clock, link } = await leading()
    link.fate('all', 'lose-answer')
    await clock.advance(10_000)
    expect(elector.isLeader()).toBe(false)
    const renewals = () => link.calls.filter(({ verb }) => verb === 'renew').length
    const before = renewals()
    await clock.advance(10 * lease)
    expect(renewals()).toBe(before)
    await stopAndCheck(elector, clock)
  })

  test('the lease counts from the moment it was sent, not from the answer (A8, A9)', async () => {
    const { elector, clock, link } = await leading()
    const answer = link.hold('renew')
    await clock.advance(5_000 + 2_400)
    answer()
    await clock.advance(0)
    link.fate('all', 'lose-request')
    // Sent at 5,000 and answered at 7,400: the deadline is 15,000.
    await clock.advance(15_000 - 7_400 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    await stopAndCheck(elector, clock)
  })

  test('an answer after its timeout is dropped (B4, C5)', async () => {
    const { elector, clock, link, memory } = await leading()
    const answer = link.hold('renew')
    await clock.advance(5_000 + 3_001)
    link.fate('all', 'lose-request')
    answer()
    await clock.advance(10_000 - 8_001 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    expect((await memory.read('e', call))?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('a renewal whose answer was lost is adopted: no loss, no extension, sent again at once', async () => {
    const { elector, clock, link } = await leading()
    link.fate('renew', 'lose-answer')
    await clock.advance(5_000)
    link.fate('renew', 'pass')
    const before = link.calls.length
    await clock.advance(3_000)
    // The repeated one is refused for its old version; the one after it carries the adopted version.
    expect(link.calls.slice(before).map(({ verb }) => verb)).toEqual(['renew', 'renew'])
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(1)
    await stopAndCheck(elector, clock)
  })

  test('a refusal that shows somebody else ends leadership at once', async () => {
    const { elector, clock, memory, leadership } = await leading()
    const record = await memory.read('e', call)
    if (!record) throw new Error('There is no record.')
    await memory.release(record, call)
    const claim = { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 1, metadata: {} }
    await memory.acquire(claim, call)
    await clock.advance(5_000)
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'superseded' })
    await stopAndCheck(elector, clock)
  })

  test('a count of failed renewals ends it before the deadline, if one is set', async () => {
    const { elector, clock, link, leadership } = await leading({ maxFailedRenewals: 2 })
    link.fate('renew', 'fail')
    await clock.advance(6_999)
    expect(leadership.isLeader()).toBe(true)
    await clock.advance(1)
    expect(leadership.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'expired' })
    await stopAndCheck(elector, clock)
  })
})

describe('time', () => {
  test.each([3_600_000, -3_600_000])('a wall clock moved by %d ms changes nothing (A1, A2, A13)', async (jump) => {
    const { elector, clock, events } = await leading()
    for (let round = 0; round < 10; round += 1) {
      clock.setWall(clock.wallMs() + jump)
      expect(elector.isLeader()).toBe(true)
      await clock.advance(lease)
    }
    expect(elector.isLeader()).toBe(true)
    expect(events.filter(({ type }) => type === 'lost')).toEqual([])
    await stopAndCheck(elector, clock)
  })

  test('after a sleep the first question already says no (A4)', async () => {
    const { elector, clock, leadership } = await leading()
    clock.sleep(3 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(() => leadership.throwIfLost()).toThrow(/was not renewed in time/)
    await clock.advance(0)
    expect(leadership.signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('after a sleep the tick aborts the signal of a leader that asks nothing (A4)', async () => {
    const { elector, clock, leadership } = await leading()
    const { signal } = leadership
    clock.sleep(3 * lease)
    // Somebody set the wall clock back by the same time, so that it shows nothing.
    clock.setWall(clock.wallMs() - 3 * lease)
    await clock.advance(1_000)
    expect(signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a sleep that leaves time does not end leadership', async () => {
    const { elector, clock } = await leading()
    clock.sleep(4_000)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('remainingMs and drainMs count down to the deadline and to the end of belief', async () => {
    const { elector, clock, leadership, link } = await leading()
    expect(leadership.remainingMs()).toBe(10_000)
    expect(leadership.drainMs()).toBeCloseTo((lease * 0.99) / 1.01, 6)
    link.fate('all', 'lose-request')
    await clock.advance(10_000)
    expect(leadership.remainingMs()).toBe(0)
    expect(leadership.drainMs()).toBe(0)
    await stopAndCheck(elector, clock)
  })
})

describe('unknown outcomes', () => {
  test('an acquire whose answer was lost is found by reading, and counts from its first transmission (B2)', async () => {
    const { elector, clock, link, memory } = scene({ watch: false, renewDeadlineMs: 13_000, retryIntervalMs: 1_000 })
    link.fate('acquire', 'lose-answer')
    link.fate('renew', 'lose-request')
    elector.start()
    await clock.advance(10_999)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(true)
    expect((await memory.read('e', call))?.term).toBe(1)
    link.fate('all', 'lose-request')
    await clock.advance(2_000 - 1)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(1)
    expect(elector.isLeader()).toBe(false)
    await stopAndCheck(elector, clock)
  })

  test('an acquire is repeated with its attempt, then given up for good, and what became of it is released', async () => {
    const { elector, clock, link, memory } = scene({ watch: false })
    link.fate('acquire', 'lose-answer')
    link.fate('read', 'fail')
    elector.start()
    await clock.advance(10_500)
    link.fate('read', 'pass')
    link.fate('acquire', 'pass')
    await clock.advance(3_000)
    const released = link.calls.filter(({ verb }) => verb === 'release')
    expect(released).toHaveLength(1)
    expect(elector.isLeader()).toBe(true)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('a grant that arrives too late to lead is given back', async () => {
    const { elector, clock, link, memory } = scene({ watch: false })
    const answer = link.hold('acquire')
    elector.start()
    await clock.advance(5_900)
    answer()
    clock.sleep(9_000)
    await clock.advance(10)
    const released = link.calls.filter(({ verb }) => verb === 'release')
    expect(released).toHaveLength(1)
    await clock.advance(5_000)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('stop gives back a grant whose answer is on its way', async () => {
    const { elector, clock, link, memory } = scene()
    const answer = link.hold('acquire')
    elector.start()
    await clock.advance(100)
    const stopped = elector.stop()
    answer()
    await clock.advance(0)
    await stopped
    expect(elector.isLeader()).toBe(false)
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('stop settles in bounded time whatever the store does (C9, C10)', async () => {
    for (const leaseDurationMs of [lease, 2 * 60 * 60_000]) {
      for (const fate of ['fail', 'lose-request', 'lose-answer'] as const) {
        for (const afterMs of [0, 1, 4_999, 5_001, 12_000, 40_000]) {
          for (const from of ['start', 'leading'] as const) {
            const { elector, clock, link } = scene({ leaseDurationMs })
            if (from === 'leading') {
              elector.start()
              await clock.advance(0)
            }
            link.fate('all', fate)
            if (from === 'start') elector.start()
            await clock.advance(afterMs)
            const stopped = elector.stop()
            await clock.advance(10_000)
            await stopped
            expect(elector.isLeader()).toBe(false)
            expect(clock.timers).toBe(0)
          }
        }
      }
    }
  })

  test('stop does not wait for the next try when the last one failed', async () => {
    const { elector, clock, link } = scene({ leaseDurationMs: 60_000 })
    link.fate('all', 'fail')
    elector.start()
    await clock.advance(1_000)
    const stopped = elector.stop()
    await clock.advance(100)
    await stopped
    expect(clock.timers).toBe(0)
  })

  test('a long lease is given back although the first try to do so failed', async () => {
    const { elector, clock, link, memory } = scene({ leaseDurationMs: 2 * 60 * 60_000 })
    elector.start()
    await clock.advance(0)
    link.fate('release', 'fail')
    const stopped = elector.stop()
    await clock.advance(1_000)
    link.fate('release', 'pass')
    await clock.advance(5_000)
    await stopped
    expect(await memory.read('e', call)).toMatchObject({ term: 1, released: true })
  })
})

describe('vanished records', () => {
  test('a record that is gone counts as held for its duration (D9)', async () => {
    const { elector, make, clock, memory } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(1_000)
    memory.delete('e')
    await clock.advance(0)
    expect(standby.explain().summary).toMatch(/the record of "e" vanished/)
    // The leader notices at its next renewal; nobody leads before the lease has run out.
    await clock.advance(5_000)
    expect([elector.isLeader(), standby.isLeader()]).toEqual([false, false])
    await clock.advance(lease)
    expect([elector.isLeader(), standby.isLeader()].filter(Boolean)).toHaveLength(1)
    expect((await memory.read('e', call))?.term).toBe(2)
    await stopAndCheck(elector, clock).catch(() => undefined)
    await stopAndCheck(standby, clock)
  })
})

describe('work', () => {
  test('stop: isLeader is false at once, the lease is renewed while work winds down, then released (C6)', async () => {
    const { elector, clock, memory, leadership } = await leading()
    let finish = (): void => undefined
    leadership.waitUntil(new Promise<void>((resolve) => (finish = resolve)))
    const stopped = elector.stop()
    expect(elector.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'stopped' })
    await clock.advance(25_000)
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(leadership.drainMs()).toBeGreaterThan(5_000)
    finish()
    await clock.advance(0)
    await stopped
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(clock.timers).toBe(0)
  })

  test('work that does not settle in time is never released under (C6, C7)', async () => {
    const { elector, clock, memory, leadership } = await leading({ drainTimeoutMs: 8_000 })
    leadership.waitUntil(new Promise(() => undefined))
    const stopped = elector.stop()
    await clock.advance(8_000)
    await stopped
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(clock.timers).toBe(0)
  })

  test('after a loss, unsettled work keeps its own elector out, and explain says so', async () => {
    const { elector, clock, link, leadership, events } = await leading()
    let finish = (): void => undefined
    leadership.waitUntil(new Promise<void>((resolve) => (finish = resolve)))
    link.fate('all', 'lose-request')
    await clock.advance(10_000)
    link.fate('all', 'pass')
    await clock.advance(10 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(events.filter(({ type }) => type === 'lost')).toEqual([])
    expect(elector.explain().summary).toMatch(/does not campaign, because 1 piece of its work has not settled/)
    finish()
    await clock.advance(1_000)
    expect(events.find(({ type }) => type === 'lost')).toMatchObject({ term: 1, reason: 'expired' })
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(2)
    await stopAndCheck(elector, clock)
  })

  test('work that fails is reported and harms nobody (C7, C16)', async () => {
    const { elector, clock, leadership, events } = await leading()
    leadership.waitUntil(Promise.reject(new Error('out of paper')))
    await clock.advance(lease)
    const failure = events.find(({ type }) => type === 'error')
    expect(failure).toMatchObject({ error: { code: 'WORK_FAILED', cause: { message: 'out of paper' } } })
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
    expect(() => leadership.waitUntil(Promise.resolve())).toThrow(/ended: this elector was stopped/)
  })

  test.each(['stop', 'stepDown'] as const)(
    'work handed in while the end is told is waited for: %s (C6)',
    async (how) => {
      const { elector, clock, memory, leadership } = await leading()
      let finish = (): void => undefined
      const flush = new Promise<void>((resolve) => (finish = resolve))
      leadership.signal.addEventListener('abort', () => leadership.waitUntil(flush))
      const ended = elector[how]()
      await clock.advance(1_000)
      expect((await memory.read('e', call))?.released).toBe(false)
      finish()
      await clock.advance(0)
      await ended
      expect((await memory.read('e', call))?.released).toBe(true)
      await stopAndCheck(elector, clock)
    },
  )

  test('work handed in while the lease is being given back comes too late', async () => {
    const { elector, clock, link, leadership } = await leading()
    const answer = link.hold('release')
    const stopped = elector.stop()
    await clock.advance(0)
    expect(() => leadership.waitUntil(Promise.resolve())).toThrow(/this elector was stopped/)
    answer()
    await clock.advance(0)
    await stopped
  })

  test.each(['stop', 'stepDown'] as const)('an observer of calls may call %s (C7)', async (how) => {
    for (const verb of ['acquire', 'renew'] as const) {
      const { clock, make, link } = scene()
      let ended: Promise<void> | undefined
      const elector: Elector = make({
        observer: { onCall: (report) => void (report.verb === verb && (ended ??= elector[how]())) },
      })
      elector.start()
      await clock.advance(0)
      if (verb === 'renew') link.fate('renew', 'lose-request')
      await clock.advance(60_000)
      await ended
      expect(ended).toBeDefined()
      await stopAndCheck(elector, clock)
    }
  })

  test('an observer that rejects is contained and reported (C16)', async () => {
    const { clock, make } = scene()
    // As queries of database libraries are: no Promise of Node's, and they begin when they are waited for.
    class Query {
      // oxlint-disable-next-line unicorn/no-thenable
      then(_: unknown, reject: (error: Error) => void) {
        reject(new Error('a bad query'))
      }
    }
    const answers: readonly (() => unknown)[] = [() => Promise.reject(new Error('a bad promise')), () => new Query()]
    for (const onEvent of answers) {
      const elector = make({ observer: { onEvent } })
      elector.start()
      await clock.advance(0)
      expect(elector.explain().lastErrors.at(-1)?.message).toMatch(/observer of "e" threw/)
      await stopAndCheck(elector, clock)
    }
  })

  test('work that ends because it was told to has not failed', async () => {
    const { elector, clock, leadership, events } = await leading()
    leadership.waitUntil(wait(60_000, undefined, { signal: leadership.signal }))
    leadership.waitUntil(
      new Promise((_, reject) => leadership.signal.addEventListener('abort', () => reject(leadership.signal.reason))),
    )
    await stopAndCheck(elector, clock)
    expect(events.filter(({ type }) => type === 'error')).toEqual([])
  })

  test('work that does not settle in time is named', async () => {
    const { elector, clock, leadership, events } = await leading({ drainTimeoutMs: 1_500 })
    leadership.waitUntil(new Promise(() => undefined))
    await stopAndCheck(elector, clock)
    const error = events.find(({ type }) => type === 'error')
    expect(error).toMatchObject({
      error: {
        code: 'WORK_UNSETTLED',
        message: expect.stringContaining('1 piece of work has not settled within drainTimeoutMs (1500 ms)'),
      },
    })
    expect(elector.explain().summary).toMatch(/^Stopped: .* 1 piece of its work has not settled/)
  })

  test('an elector that nobody listens to warns once of each kind of error', async () => {
    const warnings: Error[] = []
    const listen = (warning: Error) => void (warning.name === 'TenureWarning' && warnings.push(warning))
    process.on('warning', listen)
    const { clock, make, memory } = scene()
    const failing = () => Promise.reject(new TenureError('LOCK_UNAVAILABLE', 'There is no lock.'))
    const elector = make({ observer: undefined, store: { ...memory, acquire: failing } })
    elector.start()
    await clock.advance(4 * lease)
    await stopAndCheck(elector, clock)
    process.off('warning', listen)
    expect(warnings.map(({ message }) => message)).toEqual(['There is no lock.'])
  })

  test('an observer that throws, or calls stop() itself, is contained (C7, E7)', async () => {
    const { clock, make, memory } = scene()
    const elector: Elector = make({
      observer: {
        onEvent: (event) => {
          if (event.type === 'elected') void elector.stop()
          throw new Error('a bad listener')
        },
      },
    })
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of elector.events()) seen.push(event.type)
    })()
    elector.start()
    await clock.advance(0)
    await elector.stop()
    await reading
    expect((await memory.read('e', call))?.released).toBe(true)
    expect(seen).toContain('error')
    expect(seen.filter((type) => type !== 'error')).toEqual(['new-leader', 'elected', 'lost'])
    expect(elector.explain().lastErrors.at(-1)?.message).toMatch(/observer of "e" threw/)
  })
})

describe('stepping down', () => {
  test('releases and stays out for one lease duration', async () => {
    const { elector, make, clock } = await leading()
    const other = make({ identity: 'b' })
    other.start()
    await clock.advance(0)
    const down = elector.stepDown()
    await clock.advance(lease / 2000)
    await down
    expect(other.isLeader()).toBe(true)
    expect(elector.explain().summary).toMatch(/Stays out of "e" for another 1\d\.\d s/)
    await stopAndCheck(other, clock).catch(() => undefined)
    await clock.advance(lease)
    expect(elector.isLeader()).toBe(true)
    expect(elector.leader()?.term).toBe(3)
    await stopAndCheck(elector, clock)
  })

  test('lets another one lead first even where nobody else is there', async () => {
    const { elector, clock } = await leading()
    await Promise.all([elector.stepDown({ cooldownMs: 40_000 }), clock.advance(0)])
    await clock.advance(39_999)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(2)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('settles although work does not, and leaves the lease to run out', async () => {
    const { elector, clock, leadership, memory } = await leading({ drainTimeoutMs: 5_000 })
    leadership.waitUntil(new Promise(() => undefined))
    await Promise.all([elector.stepDown(), clock.advance(5_000)])
    expect((await memory.read('e', call))?.released).toBe(false)
    expect(elector.explain().summary).toMatch(/does not campaign/)
    await stopAndCheck(elector, clock)
  })
})

describe('carry', () => {
  test('is durable before it is answered, and outlives hand-overs', async () => {
    const { elector, make, clock, memory, leadership } = await leading()
    expect(leadership.carry).toBe('')
    const set = leadership.setCarry('last run 2030-01-01')
    await clock.advance(0)
    await set
    expect((await memory.read('e', call))?.carry).toBe('last run 2030-01-01')
    const next = make({ identity: 'b' })
    next.start()
    await clock.advance(0)
    await Promise.all([elector.stop(), clock.advance(10)])
    expect((await next.waitForLeadership()).carry).toBe('last run 2030-01-01')
    await stopAndCheck(next, clock)
  })

  test('is set again after a failed renewal, and refused once leadership is lost', async () => {
    const { elector, clock, link, leadership, memory } = await leading()
    link.fate('renew', 'fail')
    const first = leadership.setCarry('one')
    const second = leadership.setCarry('two')
    await clock.advance(100)
    link.fate('renew', 'pass')
    await clock.advance(3_000)
    await Promise.all([first, second])
    expect((await memory.read('e', call))?.carry).toBe('two')
    link.fate('all', 'lose-request')
    const lost = leadership.setCarry('three')
    const outcome = expect(lost).rejects.toMatchObject({ code: 'LEADERSHIP_LOST' })
    await clock.advance(15_000)
    await outcome
    await expect(leadership.setCarry('four')).rejects.toMatchObject({ code: 'LEADERSHIP_LOST' })
    await stopAndCheck(elector, clock)
  })
})

describe('waiting and watching', () => {
  test('waitForLeadership rejects when the elector stops or the signal aborts', async () => {
    const { elector, make, clock } = await leading()
    const standby = make({ identity: 'b' })
    standby.start()
    const controller = new AbortController()
    const first = standby.waitForLeadership({ signal: controller.signal })
    const second = standby.waitForLeadership()
    controller.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    const refused = expect(second).rejects.toSatisfy((error) => isTenureError(error) && error.code === 'STOPPED')
    await Promise.all([standby.stop(), clock.advance(0)])
    await refused
    await expect(standby.waitForLeadership()).rejects.toMatchObject({ code: 'STOPPED' })
    await stopAndCheck(elector, clock)
  })

  test('a reader of events that falls behind gets a gap in their place (E1)', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    elector.start()
    await clock.advance(400 * 5_000)
    await elector.stop()
    const events: ElectionEvent[] = []
    for await (const event of reader) events.push(event)
    const gap = events.find(({ type }) => type === 'gap')
    expect(gap).toMatchObject({ type: 'gap' })
    // new-leader, elected, 400 renewals, lost: nothing is missing without being counted.
    expect(events.length - 1 + (gap?.type === 'gap' ? gap.missed : 0)).toBe(403)
  })

  test('every next() of events settles, also of two at once', async () => {
    const { elector, clock } = scene()
    const reader = elector.events()
    const both = Promise.all([reader.next(), reader.next()])
    elector.start()
    await clock.advance(0)
    expect((await both).map(({ value }) => value?.type)).toEqual(['new-leader', 'elected'])
    await stopAndCheck(elector, clock)
  })

  test('leaves no listener on the signal it was given (C9)', async () => {
    const { elector, clock } = scene()
    const { signal } = new AbortController()
    elector.start({ signal })
    void elector.events({ signal })
    await elector.waitForLeadership({ signal })
    await stopAndCheck(elector, clock)
    void elector.events({ signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  const nonsense: unknown[] = [
    undefined,
    null,
    5,
    {},
    { ok: true },
    { ok: true, record: {}, validForMs: 15_000 },
    { ok: false },
    { ok: false, highestTerm: NaN },
    { ok: false, highestTerm: 2 ** 60 },
    { ok: false, highestTerm: 0, retryAfterMs: -1 },
    { ok: false, highestTerm: 0, record: { term: 1 } },
  ]
  test.each(nonsense)('an answer that makes no sense counts as none: %j (B6, D9, D10)', async (answer) => {
    for (const verb of ['acquire', 'renew', 'release', 'read'] as const) {
      const { clock, make, memory } = scene({ watch: false })
      const broken = { ...memory, [verb]: async () => answer }
      const elector = make({
        store: verb === 'acquire' || verb === 'renew' ? broken : ({ ...broken, watch: undefined } as never),
      })
      elector.start()
      await clock.advance(4 * lease)
      expect(elector.explain().lastErrors.length > 0 || verb === 'read' || verb === 'release').toBe(true)
      if (verb === 'acquire') expect(elector.isLeader()).toBe(false)
      await stopAndCheck(elector, clock)
    }
  })

  test.each([NaN, 0, -1, Infinity, undefined])('a grant valid for %s ms is not believed for it', async (validForMs) => {
    const { clock, make, memory } = scene()
    const distort =
      <A extends unknown[]>(verb: (...args: A) => Promise<object>) =>
      async (...args: A) =>
        ({ ...(await verb(...args)), validForMs }) as never
    const elector = make({ store: { ...memory, acquire: distort(memory.acquire), renew: distort(memory.renew) } })
    elector.start()
    // The record shows that the grant was made, and says for how long; no renewal is believed.
    await clock.advance(5_000)
    const { signal } = await elector.waitForLeadership()
    await clock.advance(5_000)
    expect(signal.aborted).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a watch that yields nonsense ends and is opened again', async () => {
    const { clock, make, memory } = scene()
    let opened = 0
    const store = {
      ...memory,
      async *watch() {
        opened += 1
        yield { version: 5 } as never
      },
    }
    await memory.acquire(
      { election: 'e', holder: 'b', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} },
      call,
    )
    const elector = make({ store })
    elector.start()
    await clock.advance(2 * lease)
    expect(opened).toBeGreaterThan(2)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('explain tells the state in words and as data', async () => {
    const { elector, make, clock } = scene()
    expect(elector.explain()).toMatchObject({ phase: 'idle', isLeader: false, leader: undefined })
    elector.start()
    await clock.advance(1_000)
    expect(elector.explain()).toMatchObject({ phase: 'leading', isLeader: true, term: 1, leaseEndsInMs: 9_000 })
    expect(elector.explain().summary).toBe('Leads "e" in term 1; unless renewed, that ends in 9.0 s.')
    const standby = make({ identity: 'b' })
    standby.start()
    await clock.advance(0)
    expect(standby.explain()).toMatchObject({ phase: 'standby', isLeader: false, leader: { holder: 'a', term: 1 } })
    expect(standby.explain().summary).toMatch(/^Stands by: "a" holds "e" in term 1/)
    await stopAndCheck(standby, clock).catch(() => undefined)
    await stopAndCheck(elector, clock)
    expect(elector.explain().summary).toBe('Stopped: it no longer campaigns for "e".')
  })

  test('a wrong record in the store elects nobody and says why (D9)', async () => {
    const { clock, make } = scene()
    const store = memoryStore({ clock })
    const elector = make({ store: { ...store, acquire: async () => Promise.reject(new Error('garbage')) } })
    elector.start()
    await clock.advance(10 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(elector.explain().summary).toMatch(/Last error: garbage/)
    await stopAndCheck(elector, clock)
  })
})
