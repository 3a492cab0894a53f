import { expect, onTestFinished, test, vi } from 'vitest'
import { KubernetesClient } from '../src/kubernetes/client/client.ts'
import { TenureError } from '../src/errors.ts'
import { memoryStore } from '../src/stores/memory.ts'
import { kubernetesStore } from '../src/stores/kubernetes.ts'
import { LeaderElector } from '../src/styles/leader-elector.ts'
import { fakeClock } from '../src/testing/index.ts'
import { warnOnce } from '../src/warnings.ts'

interface Warning extends Error {
  readonly detail?: string
}

/** The warnings of the process from now on; each test uses words of its own, because each kind is told once. */
function listen(): Warning[] {
  const warnings: Warning[] = []
  const hear = (warning: Warning) => void (warning.name === 'TenureWarning' && warnings.push(warning))
  process.on('warning', hear)
  onTestFinished(() => void process.off('warning', hear))
  return warnings
}

const told = () => new Promise((resolve) => setImmediate(resolve))

test('errors of one code and different words are each told, and those that differ in names and numbers once', async () => {
  const warnings = listen()
  for (const text of [
    'Cannot open a door',
    'Cannot open "a" in 5 ms',
    'Cannot open "b" in 7 ms',
    'Cannot open a door',
  ]) {
    warnOnce(new TenureError('UNAUTHORIZED', text))
  }
  await told()
  expect(warnings.map(({ message }) => message)).toEqual(['Cannot open a door', 'Cannot open "a" in 5 ms'])
  expect(warnings[0]?.detail).toMatch(/^It is tried again\./)
})

test('work that failed is told with its reason, and nobody says that it is tried again', async () => {
  const warnings = listen()
  const clock = fakeClock()
  const elector = new LeaderElector({
    store: memoryStore({ clock }),
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity: 'pod-a',
    clock,
    callbacks: { onStartedLeading: () => Promise.reject(new Error('the cellar is flooded')) },
  })
  const stop = new AbortController()
  const run = elector.run({ signal: stop.signal })
  await clock.advance(100)
  await told()
  expect(warnings.map(({ message }) => message)).toEqual([
    'Work of "default/my-app" in term 1 failed: the cellar is flooded',
  ])
  expect(warnings[0]?.detail).toContain('Error: the cellar is flooded\n')
  expect(warnings[0]?.detail).not.toContain('tried again')
  stop.abort()
  await clock.advance(100)
  await run
})

test('a leader that cannot renew does not lose its lease in silence', async () => {
  const warnings = listen()
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const renew = () => Promise.reject(new TenureError('BACKEND_UNAVAILABLE', 'The bridge is up.'))
  const elector = new LeaderElector({
    store: { ...memory, renew },
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity: 'pod-a',
    clock,
    callbacks: { onStartedLeading() {} },
  })
  const stop = new AbortController()
  const run = elector.run({ signal: stop.signal })
  await clock.advance(6_000)
  await told()
  expect(elector.isLeader()).toBe(true)
  expect(warnings.map(({ message }) => message)).toEqual(['The bridge is up.'])
  stop.abort()
  await clock.advance(1_000)
  await run
})

test('names that must be corrected, however many, do not hide that a leader cannot reach its store', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  const messages = () => warn.mock.calls.map(([message]) => String(message))
  // In modules of its own: what it uses up, other tests of this process have still.
  vi.resetModules()
  const fresh = await import('../src/stores/kubernetes.ts')
  const { Elector } = await import('../src/elector.ts')
  const client = new KubernetesClient({ server: 'https://127.0.0.1:1', credentials: () => ({ tls: {} }) })
  const store = fresh.kubernetesStore({ client, namespace: 'jobs' })
  onTestFinished(() => store.close?.())
  for (let tenant = 0; tenant < 60; tenant++) {
    await expect(store.read(`tenant:${tenant}`, { signal: AbortSignal.abort() })).rejects.toThrow()
  }
  expect(messages().length, 'a bounded number').toBeLessThanOrEqual(50)
  expect(messages()[0]).toMatch(/^The election "tenant:0" is kept in the Lease "jobs\/h--/)
  const clock = fakeClock()
  const renew = () => Promise.reject(new TenureError('BACKEND_UNAVAILABLE', 'The ferry is late.'))
  const elector = new Elector({ store: { ...memoryStore({ clock }), renew }, clock, election: 'e' })
  elector.start()
  await clock.advance(60_000)
  expect(messages().at(-1)).toBe('The ferry is late.')
  void elector.stop()
  await clock.advance(1_000)
})

const options = {
  leaseName: 'my-app',
  leaseNamespace: 'default',
  identity: 'pod-a',
  callbacks: { onStartedLeading() {} },
}

test('slips that would pass in silence are refused', async () => {
  const store = memoryStore()
  expect(() => new LeaderElector(options as never)).toThrow(/"client" is undefined.*inCluster\(\).*or a store/)
  const events = { ...options, store, recordEvents: true } as never
  expect(() => new LeaderElector(events)).toThrow(/"recordEvents" is true, but it needs a client/)
  expect(() => kubernetesStore({ nameSpace: 'jobs' } as never)).toThrow(
    'kubernetesStore() has no option "nameSpace". Did you mean "namespace"?',
  )
  const elector = new LeaderElector({ ...options, store })
  await expect(elector.run(new AbortController().signal as never)).rejects.toThrow(
    /"options" is an AbortSignal.*\{ signal, once \}/,
  )
  for (const retryPeriodMs of [9_900, 9_999, 8_334]) {
    expect(() => new LeaderElector({ ...options, store, retryPeriodMs })).toThrow(/"retryPeriodMs".*1\.2 times/)
  }
  expect(() => new LeaderElector({ ...options, store, retryPeriodMs: 8_333 })).not.toThrow()
})
