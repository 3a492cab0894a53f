import { expect, test } from 'vitest'
import { Elector } from '../../src/engine/elector.ts'
import { electionMetrics } from '../../src/telemetry/metrics.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { faultyStore, type Fault, type FaultyStore, type Verb } from '../faulty-store.ts'

const leaseDurationMs = 15_000

/** One election, and replicas that each have their own metrics. */
function scene(election = 'my-app') {
  const clock = fakeClock()
  const shared = memoryStore({ clock })
  return {
    clock,
    replica(identity: string, over: Partial<FaultyStore> = {}) {
      const store = Object.assign(faultyStore(shared, clock), { namespace: 'jobs', ...over })
      const metrics = electionMetrics({ clock })
      const elector = new Elector({ store, election, identity, leaseDurationMs, clock, observer: metrics })
      elector.start()
      const value = (sample: string) => Number(metrics.text().split(`\n${sample} `)[1]?.split('\n')[0])
      return { elector, store, metrics, value, status: () => value(status), terms: () => value(grants) }
    },
  }
}

type Replica = ReturnType<ReturnType<typeof scene>['replica']>

const status = 'leader_election_master_status{name="my-app",lease_namespace="jobs"}'
const grants = 'tenure_grants_total{election="my-app",lease_namespace="jobs"}'
const ended = (reason: string) =>
  `tenure_terms_ended_total{election="my-app",lease_namespace="jobs",reason="${reason}"}`
const calls = (verb: string, result: string, what: 'count' | 'sum') =>
  `tenure_store_call_seconds_${what}{election="my-app",lease_namespace="jobs",verb="${verb}",result="${result}"}`

test('the leader has the status 1 and all others have 0, from their first call on', async () => {
  const { clock, replica } = scene()
  const first = replica('a')
  await clock.advance(1_000)
  const second = replica('b')
  await clock.advance(1_000)
  expect([first.status(), second.status()]).toEqual([1, 0])
  expect([first.terms(), second.terms()]).toEqual([1, 0])
  await first.elector.stop()
  await clock.advance(1_000)
  expect([first.status(), second.status()]).toEqual([0, 1])
  expect([first.value(ended('stopped')), second.value(ended('stopped'))]).toEqual([1, 0])
  expect(first.value('tenure_term{election="my-app",lease_namespace="jobs"}')).toBe(1)
  expect(second.value('tenure_term{election="my-app",lease_namespace="jobs"}')).toBe(2)
})

test('electors without releaseOnCrash have no guard metric', async () => {
  const { clock, replica } = scene()
  const { metrics } = replica('a')
  await clock.advance(1_000)
  expect(metrics.text()).toContain('# TYPE tenure_guard_armed gauge\n')
  expect(metrics.text()).not.toMatch(/^tenure_guard_armed/m)
})

test('tenure_member says whether the process holds a seat, and electors without present do not have it', async () => {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  const metrics = electionMetrics({ clock })
  const elector = new Elector({ store, election: 'e', clock, observer: metrics, present: true })
  const other = electionMetrics({ clock })
  const absent = new Elector({ store, election: 'e', clock, observer: other })
  elector.start()
  absent.start()
  await clock.advance(0)
  expect(metrics.text()).toContain('\ntenure_member{election="e"} 0\n')
  await clock.advance(15_000)
  expect(metrics.text()).toContain('\ntenure_member{election="e"} 1\n')
  expect(other.text()).not.toMatch(/^tenure_member/m)
  await Promise.all([elector.stop(), absent.stop()])
})

test('a candidate that never reached its store has the status 0, so that an alert on no leader can fire', async () => {
  const { clock, replica } = scene()
  const lone = replica('a')
  lone.store.fault = () => 'error'
  await clock.advance(60_000)
  expect(lone.status()).toBe(0)
  expect(lone.value('tenure_errors_total{election="my-app",lease_namespace="jobs",code="OTHER"}')).toBeGreaterThan(1)
})

test('a replica whose work outlives its lease has the status 0 before its successor has 1', async () => {
  const { clock, replica } = scene()
  const first = replica('a')
  await clock.advance(1_000)
  const second = replica('b')
  const leadership = await first.elector.waitForLeadership()
  leadership.waitUntil(new Promise(() => {}))
  await clock.advance(1_000)
  first.store.fault = () => 'request-lost'
  const both: number[] = []
  for (let passed = 0; passed < 60; passed++) {
    await clock.advance(1_000)
    both.push(first.status() + second.status())
  }
  expect(first.elector.explain().phase).toBe('ending')
  expect([first.status(), second.status()]).toEqual([0, 1])
  expect(Math.max(...both)).toBe(1)
})

/**
 * Cuts the leader off while its work continues. Returns the highest number of replicas that then had the status 1 at
 * once.
 */
async function mostAtOnce(clock: FakeClock, [first, second]: readonly [Replica, Replica]): Promise<number> {
  first.store.fault = () => 'request-lost'
  let most = 0
  for (let passed = 0; passed < 60; passed++) {
    await clock.advance(500)
    most = Math.max(most, first.status() + second.status())
  }
  expect(first.elector.explain().phase).toBe('ending')
  expect([first.status(), second.status()]).toEqual([0, 1])
  return most
}

test('at most one replica has the status 1 at a time, however late the answers to renewals arrive', async () => {
  const { clock, replica } = scene()
  const first = replica('a')
  const { renew } = first.store
  first.store.renew = async (claim, call) => {
    const outcome = await renew(claim, call)
    await new Promise<void>((resolve) => void clock.setTimer(2_000, resolve))
    return outcome
  }
  await clock.advance(1_000)
  const second = replica('b')
  const leadership = await first.elector.waitForLeadership()
  leadership.waitUntil(new Promise(() => {}))
  // The renewal that was sent at 25 s has just been answered.
  await clock.advance(26_000)
  expect(first.value(calls('renew', 'ok', 'count'))).toBe(5)
  expect(await mostAtOnce(clock, [first, second])).toBe(1)
})

test('at most one replica has the status 1 at a time, even if a read found a lease whose answer was lost', async () => {
  const { clock, replica } = scene()
  const lost: Partial<Record<Verb, Fault>> = { acquire: 'reply-lost', renew: 'request-lost' }
  const first = replica('a', { fault: (verb) => lost[verb] })
  const leadership = first.elector.waitForLeadership()
  await clock.advance(1_000)
  expect(first.elector.isLeader(), 'the answer is still pending').toBe(false)
  while (!first.elector.isLeader() && clock.monotonicMs() < leaseDurationMs) await clock.advance(100)
  expect(first.status()).toBe(1)
  expect(first.store.calls.map(({ verb }) => verb)).toEqual(['acquire', 'read', 'renew'])
  ;(await leadership).waitUntil(new Promise(() => {}))
  // The store of the second replica knows to the millisecond when the lease is free.
  expect(await mostAtOnce(clock, [first, replica('b', { silentWatch: true })])).toBe(1)
})

test('a late event of an old term does not hide that a newer term is held', async () => {
  const { clock, replica } = scene()
  const { metrics, status: now } = replica('a')
  await clock.advance(1_000)
  metrics.onEvent({ type: 'lost', term: 0, reason: 'expired', election: 'my-app', namespace: 'jobs', identity: 'b' })
  expect(now()).toBe(1)
})

test('calls are counted by verb and result, with their duration in seconds', async () => {
  const { clock, replica } = scene()
  const { store, metrics, value } = replica('a')
  await clock.advance(11_000)
  store.fault = () => 'error'
  await clock.advance(leaseDurationMs)
  const counted = (...what: Parameters<typeof calls>) => value(calls(...what))
  const sent = (verb: string) => store.calls.filter((call) => call.verb === verb).length
  expect(counted('acquire', 'ok', 'count')).toBe(1)
  expect(counted('renew', 'ok', 'count') + counted('renew', 'failed', 'count')).toBe(sent('renew'))
  const call = {
    election: 'my-app',
    namespace: 'jobs',
    identity: 'a',
    verb: 'acquire',
    result: 'ok',
    durationMs: 250,
  } as const
  metrics.onCall(call)
  expect(counted('acquire', 'ok', 'count')).toBe(2)
  expect(counted('acquire', 'ok', 'sum')).toBe(0.25)
})

test('an election name is escaped in its label', async () => {
  const { clock, replica } = scene('a"} 1\\')
  const { metrics } = replica('a')
  await clock.advance(1_000)
  expect(metrics.text()).toContain('leader_election_master_status{name="a\\"} 1\\\\",lease_namespace="jobs"} 1\n')
})

test('metrics eventually drop an election that has ended, and keep one that is held or new', async () => {
  const { clock, replica } = scene()
  const { metrics, status: now } = replica('a')
  for (let number = 0; number < 3_000; number++) {
    const origin = { election: `tenant-${number}`, namespace: 'jobs', identity: 'a' }
    metrics.onCall({ ...origin, verb: 'acquire', result: 'refused', durationMs: 1 })
    if (number % 200 === 0) await clock.advance(600_000)
  }
  const shown = metrics
    .text()
    .split('\n')
    .filter((line) => line.startsWith('leader_election_master_status{'))
  expect(shown.length).toBeLessThan(1_500)
  expect(now(), 'this election has been held for hours').toBe(1)
  expect(shown.at(-1)).toContain('"tenant-2999"')
})

test('metrics keep a small number of elections forever, so that an alert on no leader can fire', async () => {
  const { clock, replica } = scene()
  const { elector, status: now } = replica('a')
  await clock.advance(1_000)
  await elector.stop()
  await clock.advance(7 * 24 * 3_600_000)
  replica('b')
  await clock.advance(1_000)
  expect(now()).toBe(0)
})
