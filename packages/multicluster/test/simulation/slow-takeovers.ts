import { expect } from 'vitest'
import { SlowClusters, type SlowCandidate } from './slow-clusters.ts'

const leaseDurationMs = 5_000
const rounds = 250

/** Kills the leader again and again while messages overtake each other, and checks how long each takeover took. */
export async function expectTakeoversInTime(seed: number): Promise<void> {
  const world = new SlowClusters(seed, leaseDurationMs)
  const { clock, random } = world
  let candidates: readonly SlowCandidate[] = world.clusters.map((cluster) => world.start(cluster))
  const leader = () => candidates.find(({ elector }) => elector.isLeader())
  const tookMs: number[] = []
  for (let round = 0; round < rounds; round++) {
    for (let waits = 0; !leader() && waits < 100; waits++) await clock.advance(100)
    const dying = leader()
    const other = candidates.find((candidate) => candidate !== dying)
    if (!dying || !other) return expect.unreachable(`nobody led for two leases in round ${round}`)
    if (random.chance(0.5)) {
      // Calls that a release cancels may be applied late.
      void dying.elector.stepDown({ cooldownMs: 200 })
      await clock.advance(random.between(600, 3_000))
      continue
    }
    await clock.advance(random.between(0, 2_000))
    const fromMs = clock.monotonicMs()
    while (dying.renewedAtMs < fromMs && clock.monotonicMs() < fromMs + leaseDurationMs) await clock.advance(2)
    dying.die()
    const diedAtMs = clock.monotonicMs()
    while (!other.elector.isLeader() && clock.monotonicMs() < diedAtMs + 4 * leaseDurationMs) await clock.advance(5)
    tookMs.push(clock.monotonicMs() - diedAtMs)
    void dying.elector.stop()
    await clock.advance(random.between(200, 1_500))
    candidates = [other, world.start(dying.cluster)]
    await clock.advance(random.between(50, 800))
  }
  expect(tookMs.length).toBeGreaterThan(rounds / 4)
  expect(Math.max(...tookMs)).toBeLessThanOrEqual(leaseDurationMs + 1_000)
}
