import { expect, test } from 'vitest'
import { simulate } from '../../src/simulation/index.ts'

// Boot time has a resolution of 10 ms. The rounding error must not count as sleep, which matters most for short leases.
test.each([1_000, 2_000, 3_000])(
  'simulate reports no violation for a correct store with a lease of %i ms',
  async (leaseDurationMs) => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const report = await simulate({ seed, hours: 0.2, leaseDurationMs })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)
