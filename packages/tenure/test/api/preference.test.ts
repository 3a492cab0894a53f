import { expect, test } from 'vitest'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { lead, Manager, memoryStore } from '../../src/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'

function scene() {
  const clock = fakeClock()
  return { clock, store: memoryStore({ clock }), election: 'e', log: false } as const
}

test('lead works only while the process is eligible, and rejects without waiting if it is not', async () => {
  const { clock, ...common } = scene()
  let isEligible = false
  const options = { ...common, clock, identity: 'a', eligible: () => isEligible }
  const refused = lead({ ...options, wait: false }, () => 'worked')
  await Promise.all([expect(refused).rejects.toMatchObject({ code: 'BUSY' }), clock.advance(1_000)])
  const working = lead(options, () => 'worked')
  await clock.advance(60_000)
  isEligible = true
  await clock.advance(3_000)
  expect(await working).toBe('worked')
})

test('lead steps down when its work reports no progress, and works again in a new term', async () => {
  const { clock, ...common } = scene()
  const reasons: unknown[] = []
  const working = lead({ ...common, clock, identity: 'a', progressTimeoutMs: 5_000 }, async ({ signal, term }) => {
    if (term > 1) return term
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    reasons.push(signal.reason.reason)
    throw signal.reason
  })
  await clock.advance(60_000)
  expect(await working).toBe(2)
  expect(reasons).toEqual(['stalled'])
})

test('the work of lead hands over to the process that it names, and works again in a later term', async () => {
  const { clock, ...common } = scene()
  const worked: string[] = []
  const reasons: unknown[] = []
  const run = (identity: string) =>
    lead({ ...common, clock, identity }, async (leadership) => {
      const { term, signal } = leadership
      worked.push(`${identity} in term ${term}`)
      if (term === 1) leadership.stepDown({ to: 'c' })
      else await new Promise<void>((resolve) => clock.setTimer(5_000, resolve))
      reasons.push(signal.aborted && signal.reason.reason)
      return term
    })
  const runs = ['a', 'b', 'c'].map(run)
  await clock.advance(1_000)
  expect(worked).toEqual(['a in term 1', 'c in term 2'])
  await clock.advance(60_000)
  expect(await Promise.all(runs)).toEqual([4, 3, 2])
  expect(reasons).toEqual(['handed-over', false, false, false])
})

test('a Manager hands over to the process that it names', async () => {
  const { clock, ...common } = scene()
  const [a, b, c] = ['a', 'b', 'c'].map((identity) => new Manager({ ...common, clock, identity }))
  const [one, two, three] = [a, b, c].map((manager) => manager?.start())
  await clock.advance(1_000)
  expect(one?.isLeader()).toBe(true)
  await Promise.all([a?.stepDown({ to: 'c' }), clock.advance(10)])
  expect([one, two, three].map((lease) => lease?.isLeader())).toEqual([false, false, true])
  await Promise.all([a?.stop(), b?.stop(), c?.stop(), clock.advance(60_000)])
})

test('a LeaderElector supports priority, eligibility, and handover to a named candidate', async () => {
  const { clock, store } = scene()
  const make = (identity: string, more: object) =>
    new LeaderElector({
      store,
      leaseName: 'e',
      leaseNamespace: 'default',
      identity,
      clock,
      log: false,
      callbacks: { onStartedLeading: () => undefined },
      ...more,
    })
  const ending = new AbortController()
  const never = make('never', { eligible: () => false })
  const first = make('first', {})
  const low = make('low', { priority: 'low' })
  const runs = [never, first, low].map((elector) => elector.run({ signal: ending.signal }))
  await clock.advance(1_000)
  expect(first.isLeader()).toBe(true)
  await Promise.all([first.stepDown({ to: 'low' }), clock.advance(10)])
  expect(low.isLeader()).toBe(true)
  expect(never.explain().heldBackBy).toBe('ineligible')
  ending.abort()
  await Promise.all([...runs, clock.advance(60_000)])
})
