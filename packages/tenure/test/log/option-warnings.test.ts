import { expect, onTestFinished, test, vi } from 'vitest'
import { KubernetesClient } from '../../src/clients/kubernetes/client.ts'
import { kubernetesStore } from '../../src/stores/kubernetes/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'

test('the number of warnings about election names is bounded', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  const messages = () => warn.mock.calls.map(([message]) => String(message))
  // Use a fresh copy of the modules. Their limit on warnings is per process, and other tests also need it.
  vi.resetModules()
  const fresh = await import('../../src/stores/kubernetes/index.ts')
  const client = new KubernetesClient({ server: 'https://127.0.0.1:1', credentials: () => ({ tls: {} }) })
  const store = fresh.kubernetesStore({ client, namespace: 'jobs' })
  onTestFinished(() => store.close?.())
  for (let tenant = 0; tenant < 60; tenant++) {
    await expect(store.read(`tenant:${tenant}`, { signal: AbortSignal.abort() })).rejects.toThrow()
  }
  expect(messages()).toHaveLength(50)
  expect(messages()[0]).toMatch(/^The election "tenant:0" is stored in the Lease "jobs\/h--/)
})

const options = {
  leaseName: 'my-app',
  leaseNamespace: 'default',
  identity: 'pod-a',
  callbacks: { onStartedLeading() {} },
}

test('option mistakes that would otherwise go unnoticed are rejected', async () => {
  const store = memoryStore()
  expect(() => new LeaderElector(options as never)).toThrow(
    /"client" is undefined.*inCluster\(\).*unless a store is given/,
  )
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
    const timings = { renewDeadlineMs: 10_000, retryPeriodMs }
    expect(() => new LeaderElector({ ...options, store, ...timings })).toThrow(/"retryPeriodMs".*1\.2 times/)
  }
  const timings = { renewDeadlineMs: 10_000, retryPeriodMs: 8_333 }
  expect(() => new LeaderElector({ ...options, store, ...timings })).not.toThrow()
})
