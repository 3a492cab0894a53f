import fc from 'fast-check'
import { test } from 'vitest'
import { Elector, LeaderElector, memoryStore } from '../../src/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { withoutSpin } from '../spin-guard-clock.ts'

const steps = fc.array(
  fc.record({
    sleepMs: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 20_000, noNaN: true })),
    passMs: fc.double({ min: 0, max: 12_000, noNaN: true }),
  }),
  { minLength: 1, maxLength: 12 },
)

test('an elector never spins, however long the machine sleeps', async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1_000, max: 15_000 }), async (script, leaseDurationMs) => {
      const clock = withoutSpin(fakeClock())
      const store = memoryStore({ clock })
      const elector = new Elector({ store, election: 'e', clock, leaseDurationMs })
      elector.start()
      for (const { sleepMs, passMs } of script) {
        clock.sleep(sleepMs)
        await clock.advance(passMs)
      }
      await Promise.all([elector.stop(), clock.advance(60_000)])
    }),
    { numRuns: 100 },
  )
})

test('a LeaderElector never spins, however long the machine sleeps', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const clock = withoutSpin(fakeClock())
      const store = memoryStore({ clock })
      const elector = new LeaderElector({
        store,
        leaseName: 'e',
        leaseNamespace: 'default',
        identity: 'a',
        clock,
        callbacks: { onStartedLeading: () => undefined, onNewLeader: () => undefined },
      })
      const ending = new AbortController()
      const run = elector.run({ signal: ending.signal })
      for (const { sleepMs, passMs } of script) {
        clock.sleep(sleepMs)
        await clock.advance(passMs)
      }
      ending.abort()
      await Promise.all([run, clock.advance(60_000)])
    }),
    { numRuns: 100 },
  )
})
