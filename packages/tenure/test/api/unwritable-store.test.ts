/** A store that can be read but refuses every write, like a database whose role may not create the table. */
import { describe, expect, test } from 'vitest'
import { casStore, Elector, lead, memoryStore, type LeaseStore, type VersionedValue } from '../../src/index.ts'
import { createJobs } from '../../src/jobs/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { cutOff, faultyStore } from '../faulty-store.ts'
import { follow, type Outcome } from '../promise-outcome.ts'

const leaseMs = 15_000
const denied = Object.assign(new Error('permission denied for schema public'), { code: '42501' })

function scene() {
  const clock = fakeClock()
  const values = new Map<string, VersionedValue>()
  const link = (access: { reads: boolean; writes: boolean }): LeaseStore => {
    const cas = {
      get: async (key: string) => {
        if (!access.reads) throw new Error('connect ECONNREFUSED')
        return values.get(key)
      },
      async putIfVersion(key: string, value: string, version: string | undefined) {
        if (!access.writes) throw denied
        if (values.get(key)?.version !== version) return undefined
        const next = String(Number(version ?? 0) + 1)
        values.set(key, { value, version: next })
        return next
      },
    }
    return casStore(cas, { clock })
  }
  const access = { reads: true, writes: false }
  const store = link(access)
  const observer = { onEvent: () => undefined, onJob: () => undefined }
  const jobs = createJobs({ store, clock, observer })
  const calls = {
    'lead({ wait: false })': () => lead({ store, election: 'import', clock, observer, wait: false }, () => 'ran'),
    'jobs.tryRun()': () => jobs.tryRun('import', () => undefined),
    'jobs.atMostOncePer()': () => jobs.atMostOncePer({ hours: 1 }, 'import', () => undefined),
  }
  /** Another process that has led for a while. */
  const holder = async () => {
    const own = { reads: true, writes: true }
    const elector = new Elector({ store: link(own), election: 'import', identity: 'holder', clock, observer })
    elector.start()
    await clock.advance(6_000)
    const crash = () => Object.assign(own, { reads: false, writes: false })
    return { crash, stop: () => elector.stop() }
  }
  return { clock, access, calls, holder }
}

type Name = keyof ReturnType<typeof scene>['calls']
const names = ['lead({ wait: false })', 'jobs.tryRun()', 'jobs.atMostOncePer()'] as const satisfies readonly Name[]

function expectRefused(called: Outcome<unknown>): void {
  expect(called).toMatchObject({
    state: 'rejected',
    error: { code: 'BACKEND_UNAVAILABLE', retryable: true, cause: denied },
  })
  expect(String(called.error)).toMatch(
    /could be read but accepted no writes for 1[0-5]\d{3} ms: permission denied for schema public$/,
  )
}

describe.each(names)('%s', (name) => {
  test('a call rejects within one lease when the store can be read but refuses every write', async () => {
    const { clock, calls } = scene()
    const called = follow<unknown>(calls[name]())
    await clock.advance(leaseMs * 0.7)
    expect(called.state).toBe('pending')
    await clock.advance(leaseMs * 0.3)
    expectRefused(called)
    expect(clock.timers).toBe(0)
  })

  test('a call rejects within one lease when the store does not answer', async () => {
    const { clock, access, calls } = scene()
    access.reads = false
    const called = follow<unknown>(calls[name]())
    await clock.advance(leaseMs)
    expect(called).toMatchObject({ state: 'rejected', error: { code: 'BACKEND_UNAVAILABLE' } })
    expect(String(called.error)).toMatch(/did not answer for 1[0-5]\d{3} ms: connect ECONNREFUSED$/)
    expect(clock.timers).toBe(0)
  })

  test('a call succeeds when writes are allowed again in time', async () => {
    const { clock, access, calls } = scene()
    const called = follow<unknown>(calls[name]())
    await clock.advance(leaseMs * 0.7)
    access.writes = true
    await clock.advance(leaseMs)
    expect(called.value).toBe('ran')
  })

  test('a call waits until the lease of a crashed leader expires before it gives up on the store', async () => {
    const { clock, calls, holder } = scene()
    const crashed = await holder()
    crashed.crash()
    await clock.advance(leaseMs)
    const called = follow<unknown>(calls[name]())
    await clock.advance(leaseMs)
    expect(called.state).toBe('pending')
    await clock.advance(leaseMs + 4_000)
    expectRefused(called)
    await Promise.all([crashed.stop(), clock.advance(60_000)])
  })
})

test('lead({ wait: false }) rejects within one lease when reads are answered but writes are not', async () => {
  const clock = fakeClock()
  const link = faultyStore(memoryStore({ clock }), clock)
  link.fault = (verb) => (verb === 'read' ? undefined : 'request-lost')
  const observer = { onEvent: () => undefined }
  const called = follow(lead({ store: link, election: 'import', clock, observer, wait: false }, () => 'ran'))
  await clock.advance(leaseMs)
  expect(called).toMatchObject({ state: 'rejected', error: { code: 'TIMEOUT', cause: { code: 'TIMEOUT' } } })
  expect(clock.timers).toBe(0)
})

test('jobs.atMostOncePer() rejects within two leases when every call hangs', async () => {
  const clock = fakeClock()
  const link = faultyStore(memoryStore({ clock }), clock)
  cutOff(link)
  const jobs = createJobs({ store: link, clock, observer: { onEvent: () => undefined } })
  const called = follow(jobs.atMostOncePer({ hours: 1 }, 'import', () => undefined))
  await clock.advance(2 * leaseMs)
  expect(called).toMatchObject({ state: 'rejected', error: { code: 'TIMEOUT' } })
  expect(clock.timers).toBe(0)
})

test('jobs.atMostOncePer() waits without a limit while another process leads', async () => {
  const { clock, access, calls, holder } = scene()
  const other = await holder()
  const called = follow(calls['jobs.atMostOncePer()']())
  await clock.advance(10 * leaseMs)
  expect(called.state).toBe('pending')
  access.writes = true
  await Promise.all([other.stop(), clock.advance(leaseMs)])
  expect(called.value).toBe('ran')
})

test('jobs.atMostOncePer() keeps waiting for another leader after its own write has failed', async () => {
  const { clock, access, calls, holder } = scene()
  const called = follow(calls['jobs.atMostOncePer()']())
  await clock.advance(leaseMs * 0.6)
  expect(called.state).toBe('pending')
  const other = await holder()
  // This process can read the other lease, but its own writes are refused.
  await clock.advance(3 * leaseMs)
  expect(called.state).toBe('pending')
  access.writes = true
  await Promise.all([other.stop(), clock.advance(leaseMs)])
  expect(called.value).toBe('ran')
})

test('an elector keeps campaigning for as long as writes are refused', async () => {
  const clock = fakeClock()
  const store = casStore({ get: async () => undefined, putIfVersion: () => Promise.reject(denied) }, { clock })
  const elector = new Elector({ store, election: 'import', clock, observer: { onEvent: () => undefined } })
  elector.start()
  const waits = follow(elector.waitForLeadership())
  await clock.advance(100 * leaseMs)
  expect(waits.state).toBe('pending')
  await Promise.all([elector.stop(), clock.advance(leaseMs)])
  expect(waits).toMatchObject({ state: 'rejected', error: { code: 'STOPPED' } })
})
