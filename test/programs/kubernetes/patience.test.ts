import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { electSlowly, stallElection } from '../../kubernetes/patience.ts'
import { SideBySide } from '../../kubernetes/side-by-side.ts'
import { programs } from '../../servers/programs.ts'
import { describeWithCluster } from '../../servers/suite.ts'

/** What both have unless told otherwise. The spare time of each cell is more than a second, for busy machines. */
const timings = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 }

describeWithCluster(
  'Tenure is as patient as client-go, with the same numbers on one API server',
  (cluster) => {
    let sides: SideBySide
    beforeAll(() => {
      sides = new SideBySide(cluster(), timings)
    })
    afterAll(async () => {
      const overlaps = sides.overlaps('tenure')
      await sides.end()
      expect(overlaps, 'nobody led beside another').toEqual([])
    })

    describe.concurrent('wherever client-go has a leader, Tenure has one', { timeout: 120_000 }, () => {
      test.for([1_000, 2_700, 3_000])('calls take %d ms longer: elected, and kept', async (latencyMs) => {
        const keepMs = 20_000
        const [tenure, peer] = await Promise.all([
          electSlowly(sides, 'tenure', latencyMs, keepMs),
          electSlowly(sides, 'client-go', latencyMs, keepMs),
        ])
        expect(peer, 'client-go is what it is measured by').toMatchObject({ keptMs: keepMs })
        expect(tenure).toMatchObject({ keptMs: keepMs })
      })

      const phases = [0.1, 0.3, 0.5, 0.7, 0.9]
      test.for([7_000, 9_000])('the API server stands still for %d ms: kept, whenever it begins', async (stallMs) => {
        const stall = (kind: 'tenure' | 'client-go') =>
          Promise.all(phases.map((phase) => stallElection(sides, kind, stallMs, phase)))
        const [tenure, peer] = await Promise.all([stall('tenure'), stall('client-go')])
        const kept = (elections: typeof peer) => elections.filter((each) => each.kept).map(({ phase }) => phase)
        expect(kept(peer).length, 'client-go is what it is measured by').toBeGreaterThan(0)
        expect(kept(tenure)).toEqual(expect.arrayContaining(kept(peer)))
      })
    })
  },
  { needs: [programs.clientGo] },
)
