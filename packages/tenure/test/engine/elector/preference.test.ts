import { describe, expect, test } from 'vitest'
import { Elector, memoryStore, type ElectionEvent, type ElectorOptions } from '../../../src/index.ts'
import { blockableClock } from './blockable-clock.ts'
import { call, leading, lease, scene, stopAndCheck } from './elector-fixture.ts'

/** With the default timings. */
const retryMs = (lease * 2) / 15

const reasons = (events: readonly ElectionEvent[]) =>
  events.flatMap((event) => (event.type === 'lost' ? [event.reason] : []))

describe('eligible', () => {
  test('a candidate that is not eligible does not contend, and contends within a retry interval once it is', async () => {
    let isEligible = false
    const { elector, clock, memory, events } = scene({ eligible: () => isEligible })
    elector.start()
    await clock.advance(10 * lease)
    expect(elector.isLeader()).toBe(false)
    expect(await memory.read('e', call)).toBeUndefined()
    expect(elector.explain()).toMatchObject({ heldBackBy: 'ineligible', isEligible: false })
    expect(elector.explain().summary).toBe(
      'Does not campaign for "e", because the option "eligible" returns false. No leader is known.',
    )
    isEligible = true
    await clock.advance(retryMs)
    expect(elector.isLeader()).toBe(true)
    expect(elector.explain()).toMatchObject({ heldBackBy: undefined, isEligible: true })
    expect(events.flatMap((event) => (event.type === 'eligibility' ? [event.eligible] : []))).toEqual([false, true])
    await stopAndCheck(elector, clock)
  })

  test.each([true, false])(
    'a waiting candidate is asked whether it is eligible once per retry interval (watch: %s)',
    async (watch) => {
      const { make, clock, elector } = await leading({ watch })
      let asked = 0
      const other = make({ identity: 'b', eligible: () => (asked += 1) > 0 })
      other.start()
      await clock.advance(10 * lease)
      expect(asked).toBeGreaterThanOrEqual((10 * lease) / retryMs)
      await stopAndCheck(other, clock).catch(() => undefined)
      await stopAndCheck(elector, clock)
    },
  )

  test('a leader steps down once it has not been eligible for two retry intervals', async () => {
    let isEligible = true
    const { elector, clock, events, memory } = await leading({ eligible: () => isEligible })
    isEligible = false
    await clock.advance(2 * retryMs)
    expect(elector.isLeader()).toBe(true)
    await clock.advance(retryMs)
    expect(elector.isLeader()).toBe(false)
    expect(reasons(events)).toEqual(['ineligible'])
    expect((await memory.read('e', call))?.released).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a leader that is eligible again in time keeps leading', async () => {
    let isEligible = true
    const { elector, clock, events } = await leading({ eligible: () => isEligible, ineligibleForMs: 3 * retryMs })
    for (let round = 0; round < 10; round += 1) {
      isEligible = false
      await clock.advance(2.5 * retryMs)
      isEligible = true
      await clock.advance(retryMs)
    }
    expect(elector.isLeader()).toBe(true)
    expect(reasons(events)).toEqual([])
    await stopAndCheck(elector, clock)
  })

  test.each([
    [
      'throws',
      () => expect.unreachable(),
      /^Option "eligible" of "e" threw: .*\. This process counts as not eligible\.$/,
    ],
    ['returns a text', () => 'yes', /"eligible" of "e" returned "yes", but it must return true or false/],
    [
      'returns a promise',
      () => Promise.reject(new Error('late')),
      /returned a promise, but it must return true or false/,
    ],
  ])('an eligible function that %s counts as not eligible and is reported once', async (_, eligible, message) => {
    const options = { eligible } as unknown as Partial<ElectorOptions>
    const { elector, clock, events } = scene(options)
    elector.start()
    await clock.advance(5 * lease)
    expect(elector.isLeader()).toBe(false)
    const errors = events.flatMap((event) => (event.type === 'error' ? [event.error] : []))
    expect(errors).toHaveLength(1)
    expect(errors[0]).toMatchObject({ code: 'PREFERENCE_FAILED', message: expect.stringMatching(message) })
    await stopAndCheck(elector, clock)
  })

  test('an eligible function that throws a different message each time is reported once, and again after it has returned', async () => {
    let asked = 0
    let isBroken = true
    const { elector, clock, events } = scene({
      eligible: () => {
        asked += 1
        if (isBroken) throw new Error(`no answer to request ${asked}`)
        return true
      },
    })
    const errors = () => events.filter(({ type }) => type === 'error').length
    elector.start()
    await clock.advance(5 * lease)
    expect(asked).toBeGreaterThan(10)
    expect(errors()).toBe(1)
    isBroken = false
    await clock.advance(lease)
    isBroken = true
    await clock.advance(5 * lease)
    expect(errors()).toBe(2)
    expect(reasons(events)).toEqual(['ineligible'])
    await stopAndCheck(elector, clock)
  })

  test('a leader whose eligible function blocks the process past its lease stops leading, and leads again later', async () => {
    const clock = blockableClock()
    let asked = 0
    const events: ElectionEvent[] = []
    const elector = new Elector({
      store: memoryStore({ clock }),
      election: 'e',
      clock,
      leaseDurationMs: 1_000,
      eligible: () => {
        asked += 1
        if (asked === 3) clock.block(2_000)
        return true
      },
      observer: { onEvent: (event) => void events.push(event) },
      log: false,
    })
    elector.start()
    const first = await elector.waitForLeadership()
    await new Promise((resolve) => first.signal.addEventListener('abort', resolve))
    const second = await elector.waitForLeadership()
    expect(second.term).toBeGreaterThan(first.term)
    expect(reasons(events)).toEqual(['expired'])
    await elector.stop()
  })

  test('an elector that does not wait gives up when it is not eligible', async () => {
    const { elector, clock } = scene({ eligible: () => false })
    elector.start({ until: 'busy' })
    const waiting = elector.waitForLeadership()
    await Promise.all([expect(waiting).rejects.toMatchObject({ code: 'BUSY' }), clock.advance(lease)])
    await stopAndCheck(elector, clock)
  })

  test('an eligible function may call methods of its elector', async () => {
    const { elector, clock } = scene({
      eligible: () => !elector.isLeader() || elector.explain().phase === 'leading',
    })
    elector.start()
    await clock.advance(3 * lease)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })
})

describe('priority', () => {
  test.each([
    [true, 'low', retryMs],
    [true, 'lowest', 2 * retryMs],
    [false, 'low', 2 * retryMs],
    [false, 'lowest', 4 * retryMs],
  ] as const)(
    'a candidate that watches (%s) with the priority %s leaves a released lease to others for %d ms',
    async (watch, priority, delayMs) => {
      const { make, clock, elector } = await leading({ watch })
      const other = make({ identity: 'b', priority })
      other.start()
      await clock.advance(lease)
      await Promise.all([elector.stepDown({ cooldownMs: 10 * lease }), clock.advance(0)])
      await clock.advance(delayMs - 1)
      expect(other.isLeader()).toBe(false)
      if (watch) expect(other.explain()).toMatchObject({ heldBackBy: 'priority', priority })
      if (watch) expect(other.explain().summary).toContain(`because its own priority is "${priority}".`)
      // Without a watch, it sees the release up to one and a half retry intervals later.
      await clock.advance(2 * retryMs)
      expect(other.isLeader()).toBe(true)
      await Promise.all([elector.stop(), other.stop(), clock.advance(lease)])
    },
  )

  test('a candidate with the lowest priority also waits after an expiry', async () => {
    const { elector, clock, memory } = scene({ priority: () => 'lowest' })
    const claim = { election: 'e', holder: 'gone', attempt: 'x', leaseDurationMs: lease, afterTerm: 0, metadata: {} }
    await memory.acquire(claim, call)
    elector.start()
    await clock.advance(lease + 2 * retryMs - 1)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(lease / 200 + 1)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test.each([true, false])(
    'a candidate with the lowest priority leads a new election at once (watch: %s)',
    async (watch) => {
      const { elector, clock } = scene({ watch, priority: 'lowest' })
      elector.start()
      await clock.advance(0)
      expect(elector.isLeader()).toBe(true)
      await stopAndCheck(elector, clock)
    },
  )

  test("a priority's delay is not added to a cooldown", async () => {
    const { elector, clock } = await leading({ priority: 'lowest' })
    await Promise.all([elector.stepDown({ cooldownMs: lease }), clock.advance(0)])
    await clock.advance(lease - 1)
    expect(elector.isLeader()).toBe(false)
    await clock.advance(2)
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('the candidate with the highest priority takes over after a release', async () => {
    const { make, clock, elector } = await leading()
    const others = (['lowest', 'normal', 'low'] as const).map((priority) => make({ identity: priority, priority }))
    for (const other of others) other.start()
    await clock.advance(lease)
    await Promise.all([elector.stepDown(), clock.advance(retryMs / 2)])
    expect(others.filter((other) => other.isLeader()).map(({ identity }) => identity)).toEqual(['normal'])
    await Promise.all([elector.stop(), ...others.map((other) => other.stop()), clock.advance(lease)])
  })
})

describe('stepDown({ to })', () => {
  test('the named candidate takes over at once, even during its own cooldown', async () => {
    const { make, clock, elector, memory, events } = await leading()
    const others = ['b', 'c', 'd'].map((identity) => make({ identity }))
    for (const other of others) other.start()
    await clock.advance(lease)
    const [, named] = others
    await Promise.all([named?.stepDown({ cooldownMs: 100 * lease }), clock.advance(0)])
    await Promise.all([elector.stepDown({ to: 'c' }), clock.advance(10)])
    expect(named?.isLeader()).toBe(true)
    expect(reasons(events)).toEqual(['handed-over'])
    expect(await memory.read('e', call)).not.toHaveProperty('successor')
    await Promise.all([elector.stop(), ...others.map((other) => other.stop()), clock.advance(lease)])
  })

  test.each([
    [true, retryMs],
    [false, 2 * retryMs],
  ])('candidates wait for a named successor even if it does not exist (watch: %s)', async (watch, waitMs) => {
    const { make, clock, elector, memory } = await leading({ watch })
    const other = make({ identity: 'b' })
    other.start()
    await clock.advance(lease)
    await Promise.all([elector.stepDown({ to: 'gone' }), clock.advance(0)])
    expect(await memory.read('e', call)).toMatchObject({ released: true, successor: 'gone' })
    await clock.advance(waitMs - 1)
    expect(other.isLeader()).toBe(false)
    if (watch) expect(other.explain()).toMatchObject({ heldBackBy: 'successor' })
    if (watch) expect(other.explain().summary).toMatch(/^Leaves "e" to "gone" for another 0\.0 s, because the last/)
    await clock.advance(2 * retryMs)
    expect(other.isLeader()).toBe(true)
    await Promise.all([elector.stop(), other.stop(), clock.advance(lease)])
  })

  test('another candidate leads after one wait when the successor is not eligible', async () => {
    const { make, clock, elector } = await leading()
    const named = make({ identity: 'b', eligible: () => false })
    const other = make({ identity: 'c' })
    for (const one of [named, other]) one.start()
    await clock.advance(lease)
    await Promise.all([elector.stepDown({ to: 'b' }), clock.advance(0)])
    await clock.advance(retryMs - 1)
    expect(other.isLeader()).toBe(false)
    await clock.advance(retryMs)
    expect(other.isLeader()).toBe(true)
    await clock.advance(20 * lease)
    expect(other.isLeader()).toBe(true)
    expect(other.leader()?.term).toBe(2)
    await Promise.all([elector.stop(), named.stop(), other.stop(), clock.advance(lease)])
  })

  test('a candidate that starts later does not wait for a successor', async () => {
    const { make, clock, elector } = await leading()
    await Promise.all([elector.stepDown({ to: 'gone' }), clock.advance(0)])
    const other = make({ identity: 'b' })
    other.start()
    await clock.advance(0)
    expect(other.isLeader()).toBe(true)
    await Promise.all([elector.stop(), other.stop(), clock.advance(lease)])
  })

  test('a leader that hands over without a cooldown does not take the lease back', async () => {
    const { make, clock, elector } = await leading({ watch: false })
    const other = make({ identity: 'b' })
    other.start()
    await clock.advance(lease)
    await Promise.all([elector.stepDown({ to: 'b', cooldownMs: 0 }), clock.advance(0)])
    await clock.advance(2 * retryMs)
    expect(other.isLeader()).toBe(true)
    await Promise.all([elector.stop(), other.stop(), clock.advance(lease)])
  })

  test.each([
    ['a', /it must name another candidate/],
    ['', /"to"/],
    [7, /"to"/],
  ])('stepDown rejects %j as a successor', async (to, message) => {
    const { elector, clock } = await leading()
    await expect(elector.stepDown({ to: to as string })).rejects.toThrow(message)
    await expect(elector.stepDown({ to: to as string })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    expect(elector.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })
})

describe('progress()', () => {
  test('a leader that reports no progress for the timeout steps down as stalled', async () => {
    const { elector, clock, events, leadership } = await leading({ progressTimeoutMs: 60_000 })
    for (let round = 0; round < 10; round += 1) {
      await clock.advance(59_000)
      leadership.progress()
    }
    expect(leadership.isLeader()).toBe(true)
    await clock.advance(59_999)
    expect(leadership.isLeader()).toBe(true)
    await clock.advance(1)
    expect(leadership.isLeader()).toBe(false)
    expect(leadership.signal.reason).toMatchObject({ reason: 'stalled' })
    expect(reasons(events)).toEqual(['stalled'])
    await stopAndCheck(elector, clock)
  })

  test('a leader without progressTimeoutMs need not report progress', async () => {
    const { elector, clock, leadership } = await leading()
    await clock.advance(100 * lease)
    leadership.progress()
    expect(leadership.isLeader()).toBe(true)
    await stopAndCheck(elector, clock)
  })

  test('a process that stalled has the lowest priority until it has been eligible for ten leases', async () => {
    const { elector, clock, leadership } = await leading({ progressTimeoutMs: 1_000 })
    await clock.advance(1_000)
    expect(leadership.isLeader()).toBe(false)
    expect(elector.explain()).toMatchObject({ priority: 'lowest', heldBackBy: 'priority' })
    expect(elector.explain().summary).toMatch(/"lowest" since it stepped down as ineligible or stalled\.$/)
    await Promise.all([elector.stepDown({ cooldownMs: 20 * lease }), clock.advance(0)])
    await clock.advance(10 * lease - 1)
    expect(elector.explain().priority).toBe('lowest')
    await clock.advance(1)
    expect(elector.explain().priority).toBe('normal')
    await stopAndCheck(elector, clock)
  })
})

test.each([
  [{ eligible: true }, 'eligible'],
  [{ ineligibleForMs: -1 }, 'ineligibleForMs'],
  [{ priority: 'high' }, 'priority'],
  [{ progressTimeoutMs: 0 }, 'progressTimeoutMs'],
])('an elector rejects the options %j', (options, option) => {
  const error = expect.objectContaining({ code: 'INVALID_OPTION', option })
  expect(() => scene(options as unknown as Partial<ElectorOptions>)).toThrow(error)
})
