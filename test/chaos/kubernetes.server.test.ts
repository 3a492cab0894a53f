/**
 * Tenure and client-go on one Lease of one API server. Known defects of client-go are avoided, because they cannot be
 * fixed here:
 * - Each process of client-go has a new name, even after a restart. Processes of Tenure keep theirs.
 * - Nobody deletes the Lease, because client-go treats a missing one as free.
 * - client-go is told to end only right after a renewal. Its release trusts the last state that it saw, so it could
 *   erase the lease of a successor.
 * - client-go is never paused for long enough to lose its lease, because it would not notice.
 * - Clocks run evenly, and the API server answers. Another suite covers servers and networks that do not.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { beliefsOf, findViolations, handOversOf, survey, type ProcessLog } from './check-logs.ts'
import { ClientGoMember, clientGoTimings } from './client-go-member.ts'
import { Fleet, type Member } from './fleet.ts'
import { kubernetesStoreLocation } from './kubernetes-store-location.ts'
import { findTermViolations, LeaseHistory, successionsOf } from './lease-history.ts'
import { longestFaultMs, memberFaults } from './member-faults.ts'
import { deckOf, injectFaults, type Fault } from './inject-faults.ts'

// The duration is not a multiple of a second, the unit of a Lease. The deadline is as late as the rules allow, so that a belief that lasts
// slightly too long is detected. Renewals come more often than once a second, the resolution that client-go can see.
const timings = { leaseDurationMs: 2_900, renewIntervalMs: 400, renewDeadlineMs: 2_690, retryIntervalMs: 400 }
/** The duration in the Lease, which client-go also uses. */
const { leaseDurationMs } = clientGoTimings

interface MixedFleet {
  readonly fleet: Fleet
  readonly peers: readonly ClientGoMember[]
  readonly history: LeaseHistory
  lives(): Promise<ProcessLog[]>
  /** Returns all violations in the logs of the processes and of the API server. */
  violations(): Promise<string[]>
}

/** Opens a fleet with three slots for each kind, without starting processes. */
async function openMixedFleet(cluster: ApiServer, election: string, dawdleMs = 5): Promise<MixedFleet> {
  const place = (_identity: string, folder: string) => kubernetesStoreLocation(cluster, folder, cluster.port)
  const fleet = await Fleet.open({ size: 3, timings, election, place, dawdleMs })
  const history = LeaseHistory.open(cluster, election)
  const peers = fleet.members.map((_, index) => new ClientGoMember(fleet, cluster, history, `client-go-${index + 1}`))
  onTestFinished(async ({ task }) => {
    history.close()
    await Promise.all(peers.map((peer) => peer.kill()))
    await fleet.close({ keepFolder: task.result?.state === 'fail' })
  })
  const lives = async () => [...(await fleet.lives()), ...peers.flatMap((peer) => peer.lives())]
  return {
    fleet,
    peers,
    history,
    lives,
    violations: async () => [...findViolations(await lives(), fleet.guard), ...findTermViolations(history.states)],
  }
}

const kindOf = (identity: string) => (identity.startsWith('client-go') ? 'client-go' : 'tenure')
const nameOf = (from: string, to: string, released: boolean) =>
  `${kindOf(from)} to ${kindOf(to)}, ${released ? 'released' : 'expired'}`
const crossings = [true, false].flatMap((released) => [
  nameOf('tenure', 'client-go', released),
  nameOf('client-go', 'tenure', released),
])

function countEach(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** Counts the handovers between the kinds, according to the beliefs of the leaders. */
const beliefCrossings = (lives: readonly ProcessLog[]) =>
  countEach(
    handOversOf(lives).map(({ former, next, how }) => nameOf(former.identity, next.identity, how === 'release')),
  )

/** Counts the handovers between the kinds, according to the history of the Lease. */
const leaseCrossings = (history: LeaseHistory) =>
  countEach(successionsOf(history.states).map(({ from, to, released }) => nameOf(from, to, released)))

/** Returns how often the rarest kind of handover was seen. */
const leastCrossings = (history: LeaseHistory) => {
  const counts = leaseCrossings(history)
  return Math.min(...crossings.map((name) => counts[name] ?? 0))
}

const hasPausedLeader = ({ pauses }: Fleet) =>
  pauses.some(({ from, to, term }) => term !== undefined && to - from > leaseDurationMs * 1e6)

function tenureFaults(fleet: Fleet): Record<string, Fault<Member>> {
  const { pause: _pause, stall: _stall, ...faults } = memberFaults(leaseDurationMs)
  // Tenure learns of a release at once, while client-go polls. client-go therefore wins only while Tenure is paused.
  const leftToClientGo =
    (fall: Fault<Member>): Fault<Member> =>
    async (member, random) => {
      const others = fleet.members.filter(({ isBusy }) => !isBusy)
      for (const other of others) other.isBusy = true
      const looksAway = others.map((other) => other.pause(1.5 * leaseDurationMs))
      await Promise.all([fall(member, random), ...looksAway])
      for (const other of others) other.isBusy = false
    }
  return {
    ...faults,
    'stop, left to client-go': leftToClientGo(faults.stop),
    'kill, left to client-go': leftToClientGo(faults.kill),
    'longPause, left to client-go': leftToClientGo(faults.longPause),
  }
}

const clientGoFaults: Record<string, Fault<ClientGoMember>> = {
  async 'kill client-go'(peer, random) {
    await peer.kill()
    await delay(random.between(0, 500))
    peer.start()
  },
  async 'stop client-go'(peer, random) {
    await peer.stop()
    await delay(random.between(0, 500))
    peer.start()
  },
  'pause client-go': (peer, random) => peer.pause(random.magnitude(20, 800)),
}

describeWithCluster(
  'Tenure and client-go on one Lease',
  (cluster) => {
    const runMs = Number(process.env['TENURE_CHAOS_SECONDS'] ?? 60) * 1e3
    const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

    test(
      `Tenure and client-go lead one at a time during ${runMs / 1e3} s of kills, pauses, and restarts`,
      { timeout: 2 * runMs + 60_000 },
      async () => {
        const { fleet, peers, history, lives, violations } = await openMixedFleet(
          cluster(),
          'mixed',
          2 * leaseDurationMs,
        )
        const how = `seed ${seed}, logs in ${fleet.folder}`
        for (const peer of peers) peer.start()
        await fleet.start()
        // Faults that lead to the rarest takeovers occur twice.
        const decks = [
          deckOf(fleet.members, tenureFaults(fleet), ['stop, left to client-go']),
          deckOf(peers, clientGoFaults, ['kill client-go']),
        ]
        const done = await injectFaults(decks, {
          random: new Random(seed),
          runMs,
          leastFree: 2,
          everyMs: [50, 400],
          otherwise: 0.15,
          isEnough: () => leastCrossings(history) > 0 && hasPausedLeader(fleet),
        })
        const endedMs = performance.now()
        const healed = await history.next(({ holder }) => holder !== '', leaseDurationMs + 2_000)
        await Promise.all([...fleet.members, ...peers].map((member) => member.stop()))

        const all = await lives()
        const saw = survey(all, fleet.guard, fleet.pauses, leaseDurationMs)
        console.log(`chaos beside client-go, seed ${seed}:`, Object.fromEntries(done), beliefCrossings(all), {
          ...saw,
          processes: all.length,
          versions: history.states.length,
          healedMs: healed.atMs - endedMs,
        })
        expect(await violations(), how).toEqual([])
        // A release waits for work, and all processes may be paused at once.
        expect(saw.longestGapMs, how).toBeLessThan(longestFaultMs(leaseDurationMs) + leaseDurationMs + 2_000)
        // A run with few events proves little.
        expect(Math.min(...done.values()), how).toBeGreaterThan(0)
        expect(leastCrossings(history), how).toBeGreaterThan(0)
        const led = countEach(beliefsOf(all).map(({ life }) => kindOf(life.identity)))
        expect(Math.min(led['tenure'] ?? 0, led['client-go'] ?? 0), how).toBeGreaterThanOrEqual(3)
        expect(hasPausedLeader(fleet), how).toBe(true)
      },
    )

    test(
      'Tenure and client-go hand over to each other in a rolling migration, in both directions, with hardly a gap',
      { timeout: 60_000 },
      async () => {
        const { fleet, peers, history, lives, violations } = await openMixedFleet(cluster(), 'migration')
        const steady = async () => {
          const { term } = await history.next(({ holder }) => holder !== '', 2 * leaseDurationMs)
          await history.next((state) => state.term === term && state.holder !== '', 2 * leaseDurationMs)
        }
        let ledLast = 0
        /** Replaces the leader first, if there is one. */
        const replace = async (
          old: readonly (Member | ClientGoMember)[],
          next: readonly (Member | ClientGoMember)[],
        ) => {
          const left = new Set(old)
          for (const member of next) {
            await member.start()
            await member.standsBy()
            const [leaves] = [...left].toSorted((a, b) => (b.term ?? -1) - (a.term ?? -1))
            if (!leaves) throw new Error('no member is left to replace')
            if (leaves.term !== undefined) ledLast++
            left.delete(leaves)
            await leaves.stop()
            await steady()
          }
        }
        for (const peer of peers) peer.start()
        await steady()
        await replace(peers, fleet.members)
        await replace(fleet.members, peers)
        // Stop the standbys first, because nobody should succeed the last leader.
        for (const peer of peers.toSorted((a, b) => (a.term ?? -1) - (b.term ?? -1))) await peer.stop()

        const handOvers = handOversOf(await lives())
        const longestGapMs = Math.max(...handOvers.map(({ gapMs }) => gapMs))
        console.log('migration:', beliefCrossings(await lives()), { longestGapMs })
        expect(await violations(), `logs in ${fleet.folder}`).toEqual([])
        // Only members that were told to stop were replaced, and no lease had to expire.
        expect(handOvers.filter(({ how }) => how !== 'release')).toEqual([])
        expect(handOvers.length).toBe(ledLast)
        expect(leaseCrossings(history)).toMatchObject({
          [nameOf('client-go', 'tenure', true)]: expect.any(Number),
          [nameOf('tenure', 'client-go', true)]: expect.any(Number),
        })
        expect(longestGapMs).toBeLessThan(leaseDurationMs)
      },
    )
  },
  { needs: [programs.clientGo] },
)
