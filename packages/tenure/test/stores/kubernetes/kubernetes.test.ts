import { expect, onTestFinished, test, vi } from 'vitest'
import { Elector } from '../../../src/engine/elector.ts'
import { kubernetesStore } from '../../../src/stores/kubernetes/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { clientFor, serve } from '../../clients/kubernetes/tls-server.ts'

const soon = { timeout: 5_000, interval: 5 }

// A Node timer fires early by as long as the event loop was busy when it was set.
test.each([-500, 0, 5])(
  'a call that hangs ends with the elector’s error when the client’s timer is %d ms off',
  async (offMs) => {
    const server = await serve(() => undefined)
    const clock = fakeClock()
    const shifted = { ...clock, setTimer: (ms: number, callback: () => void) => clock.setTimer(ms + offMs, callback) }
    const store = kubernetesStore({ client: clientFor(server.connection, shifted), namespace: 'jobs', clock })
    const errors: string[] = []
    const onEvent = (event: object) => void ('error' in event && errors.push(String(event.error)))
    const elector = new Elector({ store, election: 'nightly', clock, observer: { onEvent } })
    onTestFinished(() => void elector.stop())
    elector.start()
    await vi.waitUntil(() => server.exchanges.length === 1, soon)
    await clock.advance(9_000)
    expect(errors).toEqual([
      expect.stringMatching(/^TenureError: The store did not answer "read" for "jobs\/nightly" within \d+ ms\.$/),
    ])
  },
)

test('a call whose signal never aborts still times out', async () => {
  const server = await serve(() => undefined)
  const clock = fakeClock()
  const store = kubernetesStore({ client: clientFor(server.connection, clock), namespace: 'jobs', clock })
  const read = store.read('nightly', { signal: new AbortController().signal, timeoutMs: 500 })
  const ended = expect(read).rejects.toMatchObject({ code: 'TIMEOUT', retryable: true })
  await vi.waitUntil(() => server.exchanges.length === 1, soon)
  await clock.advance(1_500)
  await ended
  expect(clock.timers).toBe(0)
})
