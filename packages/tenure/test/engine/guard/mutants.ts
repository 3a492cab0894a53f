/** Mutants of the guard. Each must fail the check that it names. */
import type { Mutation } from '../../../../../test/mutants/mutant.ts'
import type { checks } from './checks.ts'

export interface GuardMutation extends Mutation {
  readonly caughtBy: keyof typeof checks
}

const file = 'engine/guard/guard.ts'

export const guardMutations: readonly GuardMutation[] = [
  {
    name: 'release at the end of the pipe without looking at the process',
    file,
    find: "if (state.phase !== 'ended' || status !== 'gone') return state",
    replace: "if (state.phase !== 'ended') return state",
    caughtBy: 'nothing is released while the process runs, although its pipe has ended',
  },
  {
    name: 'release on a message while the pipe is open',
    file,
    find: "if (state.phase !== 'ended' || status !== 'gone') return state",
    replace: "if (status !== 'gone') return state",
    caughtBy: 'nothing is released while the pipe is open',
  },
  {
    name: 'release the newest record instead of the registered attempt',
    file,
    find: 'return record.attempt === attempt && record.holder === holder',
    replace: 'return record.holder === holder || record.attempt === attempt',
    also: [{ file, find: 'return typeof writeId ===', replace: 'return writeIds.length > 0 || typeof writeId ===' }],
    caughtBy: 'a lease of a later attempt of the same identity is not released',
  },
  {
    name: 'ignore the write id',
    file,
    find: "return typeof writeId === 'string' && writeIds.includes(writeId)",
    replace: "return typeof writeId === 'string' && writeIds.length > 0",
    caughtBy: 'a lease that a clone has renewed is not released',
  },
  {
    name: 'keep only the write id of the acquire',
    file,
    find: 'writeIds: [...known.writeIds.slice(1 - writeIdsLimit), writeId]',
    replace: 'writeIds: known.writeIds.slice(writeId.length * 0)',
    caughtBy: 'a lease whose newest renewal was registered is released',
  },
  {
    name: 'give up after one refusal',
    file,
    find: '(input.ok ? undefined : refused(pursuit, nowMs))',
    replace: '(input.ok || nowMs >= 0 ? undefined : refused(pursuit, nowMs))',
    caughtBy: 'a renewal that lands between the read and the release is also released',
  },
  {
    name: 'give up on a signal before the first try',
    file,
    find: '(state.isTerminated && tries > 0)',
    replace: '(state.isTerminated && tries >= 0)',
    caughtBy: 'a guard that gets a signal after the crash still tries once',
  },
  {
    name: 'keep trying after a signal',
    file,
    find: '(state.isTerminated && tries > 0)',
    replace: '(state.isTerminated && tries < 0)',
    caughtBy: 'a guard that gets a signal after the crash still tries once',
  },
  {
    name: 'repeat a refused release without a pause',
    file,
    find: '(pursuit.tries > maxImmediateTries ? retryDelayMs(pursuit) : 0)',
    replace: '(pursuit.tries > maxImmediateTries ? 0 : 0)',
    caughtBy: 'a guard whose release is refused again and again slows down',
  },
  {
    name: 'count the attempts of all holders together',
    file,
    find: 'election === added.election && holder === added.holder',
    replace: "election === added.election && holder !== ''",
    caughtBy: 'the guard keeps the attempts of each holder of an election',
  },
  {
    name: 'give up if the first read does not show the attempt',
    file,
    find: 'return again(pursuit, nowMs + retryDelayMs(pursuit))\n}\n\nfunction isOf',
    replace: 'return undefined\n}\n\nfunction isOf',
    caughtBy: 'an acquire that is granted after the crash is released',
  },
  {
    name: 'release an attempt that was unregistered',
    file,
    find: 'attempts: state.attempts.filter(({ attempt }) => attempt !== input.attempt)',
    replace: 'attempts: state.attempts.filter(({ attempt }) => attempt !== input.attempt || attempt !== undefined)',
    caughtBy: 'an unregistered attempt is not released',
  },
  {
    name: 'try forever',
    file,
    find: '|| nowMs >= untilMs',
    replace: '|| nowMs >= untilMs * 1_000',
    caughtBy: 'the guard gives up after a third of the lease',
  },
  {
    name: 'ignore afterMs',
    file,
    find: 'const dueAtMs = nowMs + attempt.afterMs',
    replace: 'const dueAtMs = nowMs + attempt.afterMs * 0',
    caughtBy: 'the guard waits for afterMs before it reads',
  },
  {
    name: 'arm from a worker thread',
    file: 'engine/guard/elector-guard.ts',
    find: 'if (!isMainThread) throw refuse',
    replace: 'if (isMainThread) throw refuse',
    caughtBy: 'releaseOnCrash is refused in a worker thread',
  },
]
