import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { electSlowly, stallElection, type SlowElection } from './slow-elections.ts'
import { SideBySide } from './side-by-side.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'

/** The defaults of both implementations. Each case has more than a second of slack for busy machines. */
const timings = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 }

/** The tolerance for a busy machine. It is less than one of the long round trips. */
const busyMs = 1_000

function expectAsPatient(tenure: SlowElection, peer: SlowElection, keepMs: number): void {
  expect(peer, 'client-go is the reference').toMatchObject({ keptMs: keepMs })
  expect(tenure).toMatchObject({ keptMs: keepMs })
  const atMostMs = 1.1 * (peer.electedAfterMs ?? NaN) + busyMs
  expect(tenure.electedAfterMs, `client-go led after ${peer.electedAfterMs} ms`).toBeLessThan(atMostMs)
}

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
      expect(overlaps, 'two candidates led at the same time').toEqual([])
    })

    describe.concurrent('wherever client-go has a leader, Tenure has one', { timeout: 120_000 }, () => {
      test.for([0, 1_000, 2_700, 3_000])(
        'Tenure leads as soon as client-go and keeps its leader when calls take %d ms longer',
        async (latencyMs) => {
          const keepMs = 20_000
          const slow = { slowness: 'api-server', latencyMs, keepMs } as const
          const [tenure, peer] = await Promise.all([
            electSlowly(sides, 'tenure', slow),
            electSlowly(sides, 'client-go', slow),
          ])
          expectAsPatient(tenure, peer, keepMs)
        },
      )

      test.for([0, 1_000, 2_700, 3_000])(
        'Tenure leads as soon as client-go and keeps its leader when the network adds %d ms to each round trip',
        async (latencyMs) => {
          const keepMs = 20_000
          const slow = { slowness: 'network', latencyMs, keepMs } as const
          const [tenure, peer] = await Promise.all([
            electSlowly(sides, 'tenure', slow),
            electSlowly(sides, 'client-go', slow),
          ])
          expectAsPatient(tenure, peer, keepMs)
        },
      )

      const phases = [0.1, 0.3, 0.5, 0.7, 0.9]
      test.for([7_000, 9_000])(
        'Tenure keeps its leader when the API server stalls for %d ms at any phase, as client-go does',
        async (stallMs) => {
          const stall = (kind: 'tenure' | 'client-go') =>
            Promise.all(phases.map((phase) => stallElection(sides, kind, stallMs, phase)))
          const [tenure, peer] = await Promise.all([stall('tenure'), stall('client-go')])
          const kept = (elections: typeof peer) => elections.filter((each) => each.kept).map(({ phase }) => phase)
          expect(kept(peer).length, 'client-go is the reference').toBeGreaterThan(0)
          expect(kept(tenure)).toEqual(expect.arrayContaining(kept(peer)))
        },
      )
    })
  },
  { needs: [programs.clientGo] },
)
