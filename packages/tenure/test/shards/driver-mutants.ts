import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { driverScenes } from './driver-scenes.ts'

/** A mutant of the code that carries out the rules for shards, and the scene that must find it. */
export interface ShardDriverMutation extends Mutation {
  readonly caughtBy: keyof typeof driverScenes
}

const randomFaults = 'runs with random faults keep S1 and S2, and settle'

/** The scenes must find every one of these mutants. */
export const shardDriverMutations: readonly ShardDriverMutation[] = [
  {
    name: 'a process owns shards after its lease has ended by the clock',
    file: 'shards/member-driver.ts',
    find: 'return this.#held?.leadership.isLeader() ?? false',
    replace: 'return this.#held !== undefined',
    caughtBy: randomFaults,
  },
  {
    name: 'a process takes another seat while its work has not settled',
    file: 'shards/member-driver.ts',
    find: 'mayTakeSeat: () => !this.#isLeaving && mayTakeSeat(this.#state)',
    replace: 'mayTakeSeat: () => !this.#isLeaving',
    caughtBy: randomFaults,
  },
  {
    name: 'the seat is released although work has not settled in time',
    file: 'shards/member-driver.ts',
    find: '      held.leadership.waitUntil(this.#allSettled())\n',
    replace: '',
    caughtBy: randomFaults,
  },
  {
    name: 'the seat is released before the process has reported that it left',
    file: 'shards/member-driver.ts',
    find: '      await free\n',
    replace: '',
    caughtBy: 'a seat is not released before its process has reported that it left',
  },
  {
    name: 'a shard is handed over before its work has settled',
    file: 'shards/shard-work.ts',
    find: 'if (this.#pending > 0 || this.#isSettled || !this.#drain) return',
    replace: 'if (this.#isSettled || !this.#drain) return',
    caughtBy: randomFaults,
  },
  {
    name: 'a shard is handed over before a hold on its key has settled',
    file: 'shards/shard-work.ts',
    find: '    this.#track(result.catch(() => undefined))\n',
    replace: '',
    caughtBy: randomFaults,
  },
  {
    name: 'the signal of work on a shard that moves does not abort',
    file: 'shards/shard-work.ts',
    find: '    this.#controller.abort(reason)\n',
    replace: '',
    caughtBy: randomFaults,
  },
  {
    name: 'a seat that could not be read counts as missing',
    file: 'shards/read-seats.ts',
    find: '    throw error\n',
    replace: '    return undefined\n',
    caughtBy: 'a coordinator that cannot read the seat of a member frees none of its shards, and steps down',
  },
]
