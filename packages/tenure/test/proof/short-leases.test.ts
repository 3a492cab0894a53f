import { expect, test } from 'vitest'
import { simulate } from '../../src/simulation/index.ts'

// Boot time has a resolution of 10 ms. What is rounded off must not count as sleep, which matters most here.
test.each([1_000, 2_000, 3_000])(
  'simulate reports no violation of a correct store at a lease of %i ms',
  async (leaseDurationMs) => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const report = await simulate({ seed, hours: 0.2, leaseDurationMs })
      expect(report.ok, String(report)).toBe(true)
    }
  },
)
