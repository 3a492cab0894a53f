import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A mistake around the algorithm, and the check that must notice it. */
export interface ElectorMutation extends Mutation {
  readonly caughtBy: string
}

/** Every one of them must be noticed. */
export const electorMutations: readonly ElectorMutation[] = [
  {
    name: 'a campaign begins in the turn of the event loop in which leadership ended',
    file: 'elector.ts',
    find: "const isNext = this.#hasExpired && this.#state.phase === 'standby'",
    replace: "const isNext = this.#hasExpired && this.#state.phase === 'idle'",
    caughtBy: 'lead wins again only after other timers had a turn',
  },
  {
    name: 'signal.aborted answers by a flag that a timer sets',
    file: 'leadership.ts',
    find: '      else answerByClock(this.#controller.signal, () => void this.isLeader())\n',
    replace: '',
    caughtBy: 'after a stall signal.aborted tells of the end, and listeners hear of it at once',
  },
  {
    name: 'throwIfAborted() answers by a flag that a timer sets',
    file: 'clocked-signal.ts',
    find: '        look()\n        prototype',
    replace: '        prototype',
    caughtBy: 'after a stall throwIfAborted() and throwIfLost() throw the reason of the signal',
  },
  {
    name: 'isLeader() leaves the abort of the signal to a timer',
    file: 'elector.ts',
    find: "    if (this.#state.phase === 'leading') this.#endOverdue()\n",
    replace: '',
    caughtBy: 'after a stall isLeader() tells of the end, and listeners hear of it at once',
  },
  {
    name: 'a question within a step leaves the abort of the signal to the next step',
    file: 'elector.ts',
    find: "    this.#leadership?.end('expired')\n",
    replace: '',
    caughtBy: 'a question within a step aborts the signal before it answers, and the end is reported after it',
  },
  {
    name: 'the default identity does not name the process',
    file: 'elector.ts',
    find: 'options.identity ?? processName(this.#clock.randomId())',
    replace: 'options.identity ?? this.#clock.randomId()',
    caughtBy: 'the default identity names the host and the process, and differs between electors of one process',
  },
  {
    name: 'rounding of boot time counts as sleep',
    file: 'sleep-meter.ts',
    find: 'if (sleptMs - this.#sleptMs < shortestSleepMs) return',
    replace: 'if (sleptMs - this.#sleptMs <= 0) return',
    caughtBy: 'a lease is not shorter because boot time is rounded',
  },
  {
    name: 'rounding wakes an elector before anything is due',
    file: 'election-state.ts',
    find: 'return atMs + sleptMs < heldMs ? atMs + finestMs : atMs',
    replace: 'return atMs',
    caughtBy: 'time passes although the machine slept for a time that is no whole number',
  },
  {
    name: 'an attempt is given up although the store has not answered since',
    file: 'election.ts',
    find: '  if (s.nowMs < s.cooldownUntilMs) s.attempt = undefined\n  if (flight',
    replace:
      '  if (s.nowMs < s.cooldownUntilMs || (s.attempt && isOld(s, s.attempt))) s.attempt = undefined\n  if (flight',
    caughtBy: 'an outage leaves one attempt of unknown outcome',
  },
  {
    name: 'an attempt that was given up is forgotten',
    file: 'election.ts',
    find: 's.own = [...s.own.slice(1 - ownLimit), { id, seen: [], sent: [id] }]',
    replace: 's.own = [{ id, seen: [], sent: [id] }]',
    caughtBy: 'a late grant is released although another attempt has begun since',
  },
  {
    name: 'the step-down of a standby keeps an attempt of unknown outcome',
    file: 'election.ts',
    find: '  if (!s.flight) s.attempt = undefined\n',
    replace: '',
    caughtBy: 'a standby that steps down releases a grant of its attempt of unknown outcome',
  },
]
