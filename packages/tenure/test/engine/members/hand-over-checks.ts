import { deepEqual, equal, ok } from 'node:assert/strict'
import type { Checks } from './checks.ts'
import { group, leaseMs, PresentFleet, storeKinds, type Library, type PresentProcess } from './present-fleet.ts'

const retryMs = 2_000
const leaderOf = ({ processes }: PresentFleet) => processes.find(({ elector }) => elector.isLeader())
const losses = ({ events }: PresentProcess) => events.flatMap((event) => (event.type === 'lost' ? [event.reason] : []))

/** Takes a seat that asks for a handover, as `tenure handover` does. Returns a function that releases the seat. */
async function ask(fleet: PresentFleet, to: string): Promise<() => Promise<void>> {
  const ofTerm = leaderOf(fleet)?.elector.explain().term ?? 0
  const { library, store, clock } = fleet
  const taken = (await fleet.members()).map((member) => member.seat)
  const isFree = (seat: number) => !taken.includes(seat) && !fleet.invalid.has(`${group}.member.${seat}`)
  const seat = Array.from({ length: 32 }, (_, index) => index).findIndex(isFree)
  const election = `${group}.member.${seat}`
  const metadata = { maxMembers: 32, metadata: {}, handOverTo: to, ofTerm }
  const elector = new library.Elector({ store, election, identity: 'admin', metadata, clock, log: false })
  elector.start()
  await fleet.advance(250)
  ok(elector.isLeader(), `the request holds seat ${seat}`)
  return async () => {
    const stopped = elector.stop()
    await fleet.advance(1_000)
    await stopped
  }
}

/**
 * Replaces five processes one by one: each new one runs for a while before an old one stops. Returns how many leaders
 * followed the first one.
 */
async function rollingUpdate(fleet: PresentFleet, hasGeneration: boolean, first: number): Promise<number> {
  const old = []
  for (let index = 0; index < 5; index += 1) {
    old.push(fleet.start(hasGeneration ? { generation: 1 } : {}))
    await fleet.advance(500)
  }
  await fleet.advance(leaseMs)
  const terms = () => leaderOf(fleet)?.elector.explain().term ?? 0
  const before = terms()
  // `first` decides which of the old processes stops first. If it is 1, the leader stops last.
  for (let index = 0; index < 5; index += 1) {
    fleet.start(hasGeneration ? { generation: 2 } : {})
    await fleet.advance(leaseMs * 1.5)
    const gone = old[(first + index) % 5]
    if (gone) await fleet.stop(gone)
    await fleet.advance(leaseMs)
  }
  const changes = terms() - before
  await fleet.stopAll()
  return changes
}

/** Checks of what processes conclude from the seats of other processes. They run on the library and on its mutants. */
export const handOverChecks: Checks = Object.fromEntries(
  storeKinds.flatMap((kind) => {
    const fleetOf = (library: Library) => new PresentFleet(library, kind)
    // The stores of these fleets cannot watch, so one step is two retry intervals.
    const stepMs = 2 * retryMs
    const list: Checks = {
      async 'members() shows whether a process is eligible'(library) {
        const fleet = fleetOf(library)
        let isEligible = true
        fleet.start()
        await fleet.advance(1_000)
        fleet.start({ eligible: () => isEligible })
        const eligible = async () => (await fleet.members()).map((member) => member.eligible)
        await fleet.advance(retryMs * 2)
        deepEqual(await eligible(), [true, true])
        isEligible = false
        await fleet.advance(leaseMs)
        deepEqual(await eligible(), [true, false])
        isEligible = true
        await fleet.advance(leaseMs)
        deepEqual(await eligible(), [true, true])
        await fleet.stopAll()
      },

      async 'a rolling update with generations changes leaders about once'(library) {
        let [plain, preferred] = [0, 0]
        for (let first = 0; first < 5; first += 1) {
          plain += await rollingUpdate(fleetOf(library), false, first)
          preferred += await rollingUpdate(fleetOf(library), true, first)
        }
        ok(preferred <= 6, `five updates with generations changed leaders ${preferred} times`)
        ok(plain > preferred, `five updates without generations changed leaders ${plain} times, with them ${preferred}`)
      },

      async 'an older generation waits one step more while a newer one is present'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start({ generation: 1 })
        await fleet.advance(1_000)
        const older = fleet.start({ generation: 1 })
        // It is present and never leads.
        fleet.start({ generation: 2, eligible: () => false })
        await fleet.advance(leaseMs * 2)
        equal(older.elector.explain().newerGeneration, 2)
        await fleet.stop(leader)
        await fleet.advance(stepMs - 250)
        equal(leaderOf(fleet), undefined)
        const { heldBackBy, summary } = older.elector.explain()
        equal(heldBackBy, 'generation')
        ok(summary.includes('a member of generation 2 is present'), summary)
        await fleet.advance(retryMs * 2)
        equal(leaderOf(fleet), older)
        await fleet.stopAll()
      },

      async 'a newer generation that left does not delay an older one'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start({ generation: 1 })
        await fleet.advance(1_000)
        const older = fleet.start({ generation: 1 })
        const newer = fleet.start({ generation: 2 })
        await fleet.advance(leaseMs * 2)
        equal(older.elector.explain().newerGeneration, 2)
        await fleet.stop(newer)
        await fleet.advance(leaseMs)
        equal(older.elector.explain().newerGeneration, undefined)
        await fleet.stop(leader)
        await fleet.advance(retryMs * 1.5)
        equal(leaderOf(fleet), older)
        await fleet.stopAll()
      },

      async 'a newer generation stops counting when its seat expires, even if no seat can be read'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start({ generation: 1 })
        await fleet.advance(1_000)
        const older = fleet.start({ generation: 1 })
        const newer = fleet.start({ generation: 2 })
        await fleet.advance(leaseMs * 2)
        equal(older.elector.explain().newerGeneration, 2)
        fleet.crash(newer)
        older.fails = ({ verb, election }) => verb === 'read' && election !== group
        await fleet.advance(leaseMs * 1.2)
        equal(older.elector.explain().newerGeneration, undefined)
        await fleet.stop(leader)
        await fleet.advance(retryMs * 1.5)
        equal(leaderOf(fleet), older)
        await fleet.stopAll()
      },

      async 'a standby with a generation reads at most four seats per retry interval, and one without reads none'(
        library,
      ) {
        const fleet = fleetOf(library)
        fleet.start()
        await fleet.advance(1_000)
        const standbys = Array.from({ length: 8 }, (_, index) => fleet.start(index === 0 ? { generation: 1 } : {}))
        await fleet.advance(leaseMs * 2)
        const reads = ({ calls }: PresentProcess) =>
          calls.filter(({ verb, election }) => verb === 'read' && election !== group).length
        const before = standbys.map(reads)
        await fleet.advance(leaseMs * 4)
        const [withGeneration = 0, ...others] = standbys.map((standby, index) => reads(standby) - (before[index] ?? 0))
        const intervals = (leaseMs * 4) / retryMs
        ok(withGeneration > 0 && withGeneration <= 4 * intervals, `it read ${withGeneration} seats`)
        deepEqual(new Set(others), new Set([0]))
        await fleet.stopAll()
      },

      async 'a leader hands over to the candidate that a request names'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start()
        await fleet.advance(1_000)
        fleet.start()
        const named = fleet.start()
        await fleet.advance(leaseMs)
        const leave = await ask(fleet, named.identity)
        await fleet.advance(retryMs * 3)
        equal(leaderOf(fleet), named)
        deepEqual(losses(leader), ['handed-over'])
        // The request is still there, and the new leader ignores it.
        await fleet.advance(leaseMs)
        equal(leaderOf(fleet), named)
        await leave()
        await fleet.stopAll()
      },

      async 'a leader reads a request behind the seats of crashed processes'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start()
        await fleet.advance(1_000)
        const named = fleet.start()
        await fleet.advance(1_000)
        const crashed = Array.from({ length: 4 }, () => fleet.start())
        await fleet.advance(leaseMs)
        for (const process of crashed) fleet.crash(process)
        await fleet.advance(leaseMs * 2)
        const leave = await ask(fleet, named.identity)
        await fleet.advance(retryMs * 3)
        equal(leaderOf(fleet), named)
        deepEqual(losses(leader), ['handed-over'])
        await leave()
        await fleet.stopAll()
      },

      async 'a leader does not hand over to a candidate that crashed before its term'(library) {
        const fleet = fleetOf(library)
        const first = fleet.start()
        await fleet.advance(1_000)
        const crashed = fleet.start()
        await fleet.advance(leaseMs)
        fleet.crash(crashed)
        await fleet.advance(leaseMs * 2)
        const second = fleet.start()
        await fleet.advance(retryMs)
        await fleet.stop(first)
        await fleet.advance(retryMs)
        equal(leaderOf(fleet), second)
        const leave = await ask(fleet, crashed.identity)
        await fleet.advance(leaseMs * 2)
        equal(leaderOf(fleet), second)
        deepEqual(losses(second), [])
        await leave()
        await fleet.stopAll()
      },

      async 'a leader does not hand over to a candidate that crashed since its earlier term'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start()
        await fleet.advance(1_000)
        const between = fleet.start()
        const crashed = fleet.start()
        await fleet.advance(leaseMs)
        const leaveFirst = await ask(fleet, between.identity)
        await fleet.advance(leaseMs * 2)
        await leaveFirst()
        equal(leaderOf(fleet), between)
        fleet.crash(crashed)
        await fleet.advance(leaseMs * 2)
        await fleet.stop(between)
        await fleet.advance(retryMs)
        equal(leaderOf(fleet), leader)
        const leave = await ask(fleet, crashed.identity)
        await fleet.advance(leaseMs * 2)
        equal(leaderOf(fleet), leader)
        deepEqual(losses(leader), ['handed-over'])
        await leave()
        await fleet.stopAll()
      },

      async 'a seat whose record is invalid counts as taken and does not hide the others'(library) {
        const fleet = fleetOf(library)
        for (const seat of [0, 2, 3, 4, 5]) fleet.invalid.add(`${group}.member.${seat}`)
        const leader = fleet.start()
        await fleet.advance(leaseMs)
        const named = fleet.start()
        await fleet.advance(leaseMs)
        deepEqual(fleet.seats(), { [leader.identity]: 1, [named.identity]: 6 })
        deepEqual(
          (await fleet.members()).map(({ identity }) => identity),
          [leader.identity, named.identity],
        )
        const leave = await ask(fleet, named.identity)
        await fleet.advance(retryMs * 3)
        equal(leaderOf(fleet), named)
        await leave()
        await fleet.stopAll()
      },

      async 'a leader ignores a request for a name that no candidate can have'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start()
        await fleet.advance(leaseMs)
        // The seat of a foreign writer. Its holder is not a valid identity either.
        const { store } = fleet
        const call = { signal: new AbortController().signal, timeoutMs: 1_000 }
        const holder = 'node\u0007'
        const seat = { election: `${group}.member.1`, holder, attempt: 'foreign', leaseDurationMs: leaseMs * 4 }
        const claim = { ...seat, metadata: { maxMembers: 32, metadata: {} }, afterTerm: 0 }
        await store.acquire(claim, call)
        await fleet.advance(1_000)
        const leave = await ask(fleet, holder)
        await fleet.advance(retryMs * 3)
        equal(leaderOf(fleet), leader)
        deepEqual(
          leader.events.filter(({ type }) => type === 'error'),
          [],
        )
        await leave()
        await fleet.stopAll()
      },

      async 'a leader does not follow a request for an earlier term'(library) {
        const fleet = fleetOf(library)
        const first = fleet.start()
        await fleet.advance(1_000)
        let isEligible = false
        const named = fleet.start({ eligible: () => isEligible })
        const second = fleet.start()
        await fleet.advance(leaseMs)
        const leave = await ask(fleet, named.identity)
        await fleet.stop(first)
        await fleet.advance(leaseMs)
        equal(leaderOf(fleet), second)
        isEligible = true
        await fleet.advance(leaseMs * 2)
        equal((await fleet.members()).find(({ identity }) => identity === named.identity)?.eligible, true)
        equal(leaderOf(fleet), second)
        deepEqual(losses(second), [])
        await leave()
        await fleet.stopAll()
      },

      async 'a leader does not hand over to a candidate that is absent or not eligible'(library) {
        const fleet = fleetOf(library)
        const leader = fleet.start()
        await fleet.advance(1_000)
        const named = fleet.start({ eligible: () => false })
        await fleet.advance(leaseMs)
        for (const to of [named.identity, 'nobody', leader.identity]) {
          const leave = await ask(fleet, to)
          await fleet.advance(leaseMs)
          deepEqual(
            (await fleet.members()).map(({ identity }) => identity),
            [leader.identity, named.identity],
          )
          equal(leaderOf(fleet), leader)
          await leave()
        }
        deepEqual(losses(leader), [])
        await fleet.stopAll()
      },
    }
    return Object.entries(list).map(([name, check]) => [`${name} (${kind} store)`, check] as const)
  }),
)
