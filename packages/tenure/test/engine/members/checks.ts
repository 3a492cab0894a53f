import { deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import { Random } from '../../../../testing/src/simulation/random.ts'
import { group, leaseMs, PresentFleet, storeKinds, type Library, type PresentProcess } from './present-fleet.ts'
import { churn } from './churn.ts'

export type { Library }

/** Checks by name. Each resolves if the statement in its name holds, and rejects otherwise. */
export type Checks = Readonly<Record<string, (library: Library) => Promise<void>>>

const problems = ({ events }: PresentProcess) =>
  events.flatMap((event) => (event.type === 'error' && event.error instanceof Error ? [event.error] : []))
const codes = (process: PresentProcess) => problems(process).map((error) => Reflect.get(error, 'code'))
const seatCalls = ({ calls }: PresentProcess) => calls.filter(({ election }) => election !== group)

/** Checks of the presence of members. They run on the library and on its mutants, in virtual time. */
export const checks: Checks = Object.fromEntries(
  storeKinds.flatMap((kind) => {
    const fleetOf = (library: Library, options = {}) => new PresentFleet(library, kind, options)
    const list: Checks = {
      async 'processes that start together take the first seats, each its own'(library) {
        const fleet = fleetOf(library)
        for (let index = 0; index < 5; index += 1) fleet.start()
        await fleet.advance(leaseMs)
        deepEqual(Object.values(fleet.seats()).toSorted(), [0, 1, 2, 3, 4])
        await fleet.stopAll()
      },

      async 'members() lists the leader and the standbys, with what they offer'(library) {
        const fleet = fleetOf(library)
        fleet.start({ metadata: { zone: 'az-a' }, generation: 41 })
        await fleet.advance(1_000)
        fleet.start({ metadata: { zone: 'az-b' }, generation: 42 })
        fleet.start()
        await fleet.advance(2_000)
        const found = await fleet.members()
        deepEqual(
          found.map(({ seat, identity, metadata, generation, eligible, leads }) => ({
            seat,
            identity,
            metadata,
            generation,
            eligible,
            leads,
          })),
          [
            { seat: 0, identity: 'node-0', metadata: { zone: 'az-a' }, generation: 41, eligible: true, leads: true },
            { seat: 1, identity: 'node-1', metadata: { zone: 'az-b' }, generation: 42, eligible: true, leads: false },
            { seat: 2, identity: 'node-2', metadata: {}, generation: undefined, eligible: true, leads: false },
          ],
        )
        ok(found.every(({ lastSeenMs }) => lastSeenMs >= 0 && lastSeenMs <= 3_000))
        await fleet.stopAll()
      },

      async 'a released seat has no member, and the next process takes it'(library) {
        const fleet = fleetOf(library)
        const [first] = [fleet.start(), fleet.start()]
        await fleet.advance(2_000)
        equal(first.elector.explain().seat, 0)
        await fleet.stop(first)
        deepEqual(
          (await fleet.members()).map(({ identity }) => identity),
          ['node-1'],
        )
        fleet.start()
        await fleet.advance(2_000)
        deepEqual(fleet.seats(), { 'node-1': 1, 'node-2': 0 })
        await fleet.stopAll()
      },

      async 'the seat of a crashed process is taken after its lease, and not before'(library) {
        const fleet = fleetOf(library, { maxMembers: 1 })
        const [first, second] = [fleet.start(), fleet.start()]
        await fleet.advance(2_000)
        const [seated, other] = first.elector.explain().seat === 0 ? [first, second] : [second, first]
        fleet.crash(seated)
        await fleet.advance(leaseMs * 0.6)
        equal(other.elector.explain().seat, undefined)
        await fleet.advance(leaseMs * 2)
        equal(other.elector.explain().seat, 0)
        await fleet.stopAll()
      },

      async 'members() with observeMs of one lease leaves out a process that crashed'(library) {
        const fleet = fleetOf(library)
        const [first] = [fleet.start(), fleet.start()]
        await fleet.advance(2_000)
        fleet.crash(first)
        await fleet.advance(leaseMs)
        const [crashed] = (await fleet.members()).filter(({ identity }) => identity === first.identity)
        // Only a store with its own clock can tell in one read.
        deepEqual(crashed && [crashed.live], kind === 'memory' ? undefined : [undefined])
        const found = await fleet.members(leaseMs)
        deepEqual(
          found.map(({ identity, live }) => ({ identity, live })),
          [{ identity: 'node-1', live: true }],
        )
        await fleet.stopAll()
      },

      async 'members() keeps a live member while it observes the longer lease of a process that crashed'(library) {
        const fleet = fleetOf(library)
        const crashed = fleet.start({ leaseDurationMs: leaseMs * 2 })
        await fleet.advance(1_000)
        fleet.start()
        await fleet.advance(1_000)
        fleet.crash(crashed)
        await fleet.advance(leaseMs * 2)
        const found = await fleet.members(leaseMs * 2)
        deepEqual(
          found.map(({ identity, live }) => ({ identity, live })),
          [{ identity: 'node-1', live: true }],
        )
        await fleet.stopAll()
      },

      async 'a process without a seat reports SEATS_EXHAUSTED once, contends as before, and takes a seat later'(
        library,
      ) {
        const fleet = fleetOf(library, { maxMembers: 2 })
        const [first, second, third] = [fleet.start(), fleet.start(), fleet.start()]
        await fleet.advance(leaseMs * 6)
        const unseated = [first, second, third].find(({ elector }) => elector.explain().seat === undefined)
        ok(unseated, 'one of three processes has no seat')
        deepEqual(codes(unseated), ['SEATS_EXHAUSTED'])
        const leader = [first, second, third].find(({ elector }) => elector.isLeader())
        for (const process of [first, second, third]) if (process !== unseated) await fleet.stop(process)
        await fleet.advance(leaseMs * 2.5)
        ok(leader, 'the election has a leader')
        ok(unseated.elector.isLeader(), 'the process without a seat leads after the others have stopped')
        notEqual(unseated.elector.explain().seat, undefined)
        deepEqual(codes(unseated), ['SEATS_EXHAUSTED'])
        await fleet.stopAll()
      },

      async 'a process that finds every seat expired takes one after one lease and reports nothing'(library) {
        const fleet = fleetOf(library, { maxMembers: 3 })
        const old = [fleet.start(), fleet.start(), fleet.start()]
        await fleet.advance(2_000)
        for (const process of old) fleet.crash(process)
        const late = fleet.start()
        await fleet.advance(leaseMs * 1.5)
        notEqual(late.elector.explain().seat, undefined)
        deepEqual(codes(late), [])
        await fleet.stopAll()
      },

      async 'a stalled process that lost its seat comes back as another member'(library) {
        const fleet = fleetOf(library, { maxMembers: 2 })
        const stalled = fleet.start()
        await fleet.advance(2_000)
        const before = (await fleet.members())[0]
        const others = [fleet.start(), fleet.start()]
        await fleet.advance(1_000)
        stalled.clock.stall()
        stalled.isCut = true
        await fleet.advance(leaseMs * 3)
        deepEqual(others.map(({ elector }) => elector.explain().seat).toSorted(), [0, 1])
        stalled.isCut = false
        stalled.clock.resume()
        await fleet.advance(2_000)
        equal(stalled.elector.explain().seat, undefined)
        await fleet.stop(others[0] ?? stalled)
        await fleet.advance(leaseMs * 2)
        notEqual(stalled.elector.explain().seat, undefined)
        const after = (await fleet.members()).find(({ identity }) => identity === stalled.identity)
        ok(before && after, 'the process is a member before and after the stall')
        notEqual(after.attempt, before.attempt)
        await fleet.stopAll()
      },

      async 'a process reads the seats up to the first free one, and acquires only that one'(library) {
        const fleet = fleetOf(library)
        const first = fleet.start()
        await fleet.advance(1_000)
        const second = fleet.start()
        await fleet.advance(1_000)
        await fleet.stop(first)
        // The first seat was released.
        const third = fleet.start()
        await fleet.advance(1_000)
        const sent = [first, second, third].map((process) => {
          const calls = seatCalls(process)
          // A leader reads the other seats once it has its own.
          const acquired = calls.findIndex(({ verb }) => verb === 'acquire')
          const relevant = calls.filter(({ verb }, index) => index <= acquired || verb !== 'read')
          return relevant.map(({ verb, election, outcome }) => `${verb} ${election.at(-1)} ${outcome}`)
        })
        deepEqual(sent, [
          ['read 0 ok', 'acquire 0 ok', 'release 0 ok'],
          ['read 0 ok', 'read 1 ok', 'acquire 1 ok'],
          ['read 0 ok', 'acquire 0 ok'],
        ])
        await fleet.stopAll()
      },

      async 'a present process makes one seat call at a time and renews its seat once per third of a lease'(library) {
        const fleet = fleetOf(library)
        const process = fleet.start()
        await fleet.advance(2_000)
        const before = seatCalls(process).length
        await fleet.advance(leaseMs * 4)
        const later = seatCalls(process).slice(before)
        const renewals = later.filter(({ verb }) => verb === 'renew').length
        ok(renewals >= 11 && renewals <= 13, `it renewed ${renewals} times in four leases`)
        // A leader also reads the other seats, for requests to hand over.
        deepEqual(new Set(later.map(({ verb }) => verb)), new Set(['renew', 'read']))
        ok(process.mostOpen <= 2, `${process.mostOpen} calls were in flight`)
        await fleet.stopAll()
      },

      async 'stop() releases the seat after the lease of the election'(library) {
        const fleet = fleetOf(library)
        const process = fleet.start()
        await fleet.advance(2_000)
        const released = process.elector
          .stop()
          .then(() =>
            process.calls
              .filter(({ verb, outcome }) => verb === 'release' && outcome === 'ok')
              .map(({ election }) => election),
          )
        await fleet.advance(1_000)
        deepEqual(await released, [group, `${group}.member.0`])
        equal(fleet.clock.timers, 0)
      },

      async 'a report ends with its member and is written only when it changes'(library) {
        const fleet = fleetOf(library)
        let eligible = true
        const process = fleet.start({ eligible: () => eligible, retryIntervalMs: 400 })
        await fleet.advance(3_000)
        const renewals = () => seatCalls(process).filter(({ verb }) => verb === 'renew').length
        equal(renewals(), 0)
        eligible = false
        await fleet.advance(1_000)
        equal((await fleet.members())[0]?.eligible, false)
        equal(renewals(), 1)
        // A report that keeps changing costs at most two renewals per interval.
        for (let change = 0; change <= 20; change += 1) {
          eligible = change % 2 === 0
          await fleet.advance(leaseMs / 15)
        }
        const written = renewals()
        ok(written >= 4 && written <= 10, `${written} renewals in four thirds of a lease`)
        eligible = false
        await fleet.advance(leaseMs)
        equal((await fleet.members())[0]?.eligible, false)
        await fleet.stop(process)
        fleet.start()
        await fleet.advance(2_000)
        deepEqual(
          (await fleet.members()).map(({ seat, eligible }) => ({ seat, eligible })),
          [{ seat: 0, eligible: true }],
        )
        await fleet.stopAll()
      },

      async 'a process releases the seat that it was granted in an answer that was lost'(library) {
        const fleet = fleetOf(library)
        const process = fleet.start()
        let messages = 0
        process.latencyMs = () => {
          const { verb, election } = process.calls.at(-1) ?? {}
          const isGrant = verb === 'acquire' && election === `${group}.member.0` && ++messages === 2
          return isGrant ? leaseMs * 10 : 0
        }
        await fleet.advance(leaseMs * 2)
        deepEqual(
          (await fleet.members()).map(({ seat, identity }) => ({ seat, identity })),
          [{ seat: 0, identity: process.identity }],
        )
        const releases = seatCalls(process).filter(({ verb, outcome }) => verb === 'release' && outcome === 'ok')
        equal(releases.length, 1)
        await fleet.stopAll()
      },

      async 'a store that refuses the seats is reported once and does not affect the election'(library) {
        const fleet = fleetOf(library)
        const process = fleet.start()
        process.fails = ({ election }) => election !== group
        await fleet.advance(leaseMs * 3)
        ok(process.elector.isLeader())
        const [problem, ...more] = problems(process)
        ok(problem?.message.includes('permission denied'), problem?.message)
        deepEqual(more, [])
        process.fails = () => false
        await fleet.advance(leaseMs)
        equal(process.elector.explain().seat, 0)
        await fleet.stopAll()
      },

      async 'no two processes hold one seat through crashes, stalls, and partitions'(library) {
        for (const seed of [1, 2, 3]) await churn(fleetOf(library, { maxMembers: 4 }), new Random(seed))
      },
    }
    return Object.entries(list).map(([name, check]) => [`${name} (${kind} store)`, check] as const)
  }),
)

/** Checks that do not depend on the store. */
export const optionChecks: Checks = {
  async 'members() rejects when the store does not answer in time'(library) {
    const silent = { ...library.memoryStore(), look: () => new Promise<never>(() => undefined) }
    await rejects(library.members(silent, group, { timeoutMs: 5 }), { code: 'TIMEOUT' })
  },
}
