import { expect, test } from 'vitest'
import { Elector } from '../../src/engine/elector.ts'
import type { CallReport, ElectionEvent, Origin } from '../../src/engine/events.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { Manager } from '../../src/api/manager.ts'
import { fakeClock } from '../../../testing/src/index.ts'

function scene() {
  const clock = fakeClock()
  const events: ElectionEvent[] = []
  const calls: CallReport[] = []
  return {
    clock,
    events,
    calls,
    observer: {
      onEvent: (event: ElectionEvent) => void events.push(event),
      onCall: (report: CallReport) => void calls.push(report),
    },
    storeIn: (namespace: string) => Object.assign(memoryStore({ clock }), { namespace }),
  }
}

const namespacesOf = (reports: readonly Origin[]) => [...new Set(reports.map(({ namespace }) => namespace))].sort()

test('events, calls, and explanations of the same election name in two namespaces are distinguishable', async () => {
  const { clock, events, calls, observer, storeIn } = scene()
  const electors = ['blue', 'green'].map((leaseNamespace) => {
    const store = storeIn(leaseNamespace)
    const callbacks = { onStartedLeading: () => undefined }
    return new LeaderElector({ store, leaseName: 'my-app', leaseNamespace, identity: 'a', clock, observer, callbacks })
  })
  const stopping = new AbortController()
  const runs = electors.map((elector) => elector.run({ signal: stopping.signal }))
  await clock.advance(6_000)
  stopping.abort()
  await clock.advance(1_000)
  await Promise.all(runs)
  for (const type of ['new-leader', 'elected', 'renewed', 'lost']) {
    expect(namespacesOf(events.filter((event) => event.type === type))).toEqual(['blue', 'green'])
  }
  for (const verb of ['acquire', 'renew', 'release']) {
    expect(namespacesOf(calls.filter((call) => call.verb === verb))).toEqual(['blue', 'green'])
  }
  expect(new Set([...events, ...calls].map(({ election }) => election))).toEqual(new Set(['my-app']))
})

test('an error thrown by a callback or a listener is reported with its namespace', async () => {
  const { clock, events, observer, storeIn } = scene()
  const options = { leaseName: 'my-app', leaseNamespace: 'blue', identity: 'a', clock, observer }
  const throwing = () => {
    throw new Error('mistake')
  }
  const callbacks = { onStartedLeading: () => undefined, onNewLeader: throwing }
  const stopping = new AbortController()
  const run = new LeaderElector({ ...options, store: storeIn('blue'), callbacks }).run({ signal: stopping.signal })
  const failing = { ...storeIn('green'), acquire: () => Promise.reject(new Error('no store')) }
  const manager = new Manager({ store: failing, election: 'my-app', clock, observer })
  manager.onError = throwing
  manager.start()
  await clock.advance(100)
  stopping.abort()
  const stopped = manager.stop()
  await clock.advance(10_000)
  await Promise.all([run, stopped])
  const mistakes = events.filter((event) => event.type === 'error' && String(event.error).includes('failed'))
  expect(namespacesOf(mistakes)).toEqual(['blue', 'green'])
})

test('a gap event contains its namespace', async () => {
  const { clock, storeIn } = scene()
  const elector = new Elector({ store: storeIn('blue'), election: 'my-app', leaseDurationMs: 300, clock })
  const reader = elector.events()
  elector.start()
  await clock.advance(60_000)
  const stopped = elector.stop()
  await clock.advance(1_000)
  await stopped
  const events: ElectionEvent[] = []
  for await (const event of reader) events.push(event)
  expect(events.filter(({ type }) => type === 'gap')).toMatchObject([{ namespace: 'blue' }])
  expect(namespacesOf(events)).toEqual(['blue'])
})

test('explain() returns the namespace', async () => {
  const { clock, storeIn } = scene()
  const elector = new Elector({ store: storeIn('blue'), election: 'my-app', identity: 'a', clock })
  elector.start()
  await clock.advance(1_000)
  expect(elector.explain()).toMatchObject({ election: 'my-app', namespace: 'blue' })
  expect(elector.explain().summary).toMatch(/^Leads "blue\/my-app" in term 1\./)
})

test('errors contain the namespace in the same form as explain()', async () => {
  const { clock, events, observer } = scene()
  const silent = { ...memoryStore({ clock }), namespace: 'blue', renew: () => new Promise<never>(() => {}) }
  const elector = new Elector({ store: silent, election: 'my-app', clock, observer })
  elector.start()
  await clock.advance(1_000)
  const leadership = await elector.waitForLeadership()
  await clock.advance(15_000)
  const failed = events.flatMap((event) => (event.type === 'renew-failed' ? [String(event.error)] : []))
  expect(failed[0]).toMatch(/^TenureError: The store did not answer "renew" for "blue\/my-app" within \d+ ms\.$/)
  expect(String(leadership.signal.reason)).toBe(
    'LeadershipLostError: Leadership of "blue/my-app" in term 1 ended: the lease was not renewed in time.',
  )
  expect(leadership.signal.reason).toMatchObject({ election: 'my-app' })
})

test('events of a store without namespaces have no namespace field', async () => {
  const { clock, events, calls, observer } = scene()
  const elector = new Elector({ store: memoryStore({ clock }), election: 'my-app', clock, observer })
  elector.start()
  await clock.advance(1_000)
  expect([...events, ...calls].filter((report) => 'namespace' in report)).toEqual([])
  expect(events).not.toEqual([])
})
