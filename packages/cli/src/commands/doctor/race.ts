import type { LeaseStore } from 'tenure'
import { now } from '../../shared/clock.ts'
import type { Heat, ProbeElection } from './probe-election.ts'

/** The result of all rounds of one kind of write. */
export interface RaceRounds {
  readonly rounds: number
  /** The highest number of racers in one round that got the answer that their write was applied. */
  readonly winners: number
  /** Rounds in which the store refused every racer, although one of them should have won. */
  readonly withoutWinner: number
  /** How many calls failed, for example by a timeout or a rate limit. Their outcome is unknown. */
  readonly failed: number
}

/** The result of racing a store, or why it was not raced. */
export type Race =
  | {
      readonly racers: number
      readonly swaps: RaceRounds
      /** Undefined if the store or the user cannot remove the election in between. */
      readonly creates: RaceRounds | undefined
    }
  | { readonly why: string }

const wantedRacers = 16
const mostRounds = 5
/** No round starts after this time, so that a slow store gets fewer rounds. */
const longestRacingMs = 3_000

/**
 * Sends the same conditional write many times at once. Exactly one of them may be applied. The first write replaces one
 * version of the record, and the second creates the record. At the end the election is released.
 *
 * Every racer has its own store, because the commands of one connection are often carried out one after another, which
 * would hide a gap between a server's comparison and its write.
 */
export async function race(probe: ProbeElection, open: () => Promise<LeaseStore>): Promise<Race> {
  const stores: LeaseStore[] = []
  try {
    for (let count = 0; count < wantedRacers; count++) stores.push(await open())
    const { ready, refusal } = await probe.prepare(stores)
    if (ready.length < 2)
      return { why: `the store accepted ${ready.length} of ${wantedRacers} connections: ${refusal}` }
    await probe.renew()
    const swaps = await runRounds(async () => {
      await probe.prepare(ready)
      await probe.renewIfDue()
      return probe.raceRenewals(ready)
    })
    const isGone = await probe.release()
    const creates = isGone ? await runRounds(() => createRound(probe, ready)) : undefined
    return { racers: ready.length, swaps, creates }
  } finally {
    // Every "memory:" is the same store, which the doctor still uses.
    const own = stores.filter((store) => store !== probe.store)
    await Promise.allSettled(own.map(async (store) => store.close?.()))
  }
}

async function createRound(probe: ProbeElection, stores: readonly LeaseStore[]): Promise<Heat> {
  await probe.prepare(stores)
  const heat = await probe.raceAcquires(stores)
  // A call without an answer may create the record later. A record that stays makes the store refuse that call.
  const isGone = await probe.release({ keep: heat.failed > 0 })
  return { ...heat, isLast: heat.isLast || !isGone }
}

async function runRounds(round: () => Promise<Heat>): Promise<RaceRounds> {
  const startedAtMs = now().machineMs
  let [rounds, winners, withoutWinner, failed] = [0, 0, 0, 0]
  while (rounds < mostRounds && (rounds === 0 || now().machineMs - startedAtMs < longestRacingMs)) {
    const heat = await round()
    if (heat.isDisturbed) break
    rounds += 1
    winners = Math.max(winners, heat.winners)
    failed += heat.failed
    if (heat.winners === 0 && heat.failed === 0) withoutWinner += 1
    if (heat.isLast || heat.winners > 1) break
  }
  return { rounds, winners, withoutWinner, failed }
}
