import type { Mutation } from '../mutants/mutant.ts'

/** A mistake in how jobs are run, which a fleet brings to light. */
export interface JobMutant extends Mutation {
  /** What is said of it. */
  readonly says: RegExp
  readonly onlyPauses?: boolean
  /** It takes runs that are as long as what is between two times: in virtual time only. */
  readonly isVirtual?: boolean
  /** It takes one leader for all jobs. */
  readonly sharedLeader?: string
  /** How far the clock of each process has to be ahead for that. */
  readonly aheadMs?: (index: number) => number
}

export const jobMutants: readonly JobMutant[] = [
  {
    name: 'note the time after the run',
    file: 'jobs/book.ts',
    find: 'const isNoted = await this.write({ ...planned.head, runs: [run, ...runs] })',
    replace: 'const isNoted = true',
    also: [
      {
        file: 'jobs/book.ts',
        find: 'this.write({ ...planned.headAfter?.(report), runs: [ended, ...runs] })',
        replace: 'this.write({ ...planned.head, ...planned.headAfter?.(report), runs: [ended, ...runs] })',
      },
    ],
    says: /ran 2 times/,
  },
  {
    name: 'trust this wall clock more than the time that another machine noted',
    file: 'jobs/schedule.ts',
    find: 'latestMs !== undefined && latestMs > lastMs ? latestMs : undefined',
    replace: 'latestMs !== undefined && latestMs !== lastMs ? latestMs : undefined',
    says: /ran \d times/,
    aheadMs: (index) => index * 1_500,
  },
  {
    name: 'forget a time that passed during a take-over',
    file: 'jobs/schedule.ts',
    find: 'nowMs - openMs <= this.#toleranceMs',
    replace: 'nowMs - openMs <= 100',
    says: /was left out/,
    onlyPauses: true,
  },
  {
    name: 'let a run go on that has lost its lease',
    file: 'jobs/perform.ts',
    find: "else leadership.signal.addEventListener('abort', end, { once: true })",
    replace: '',
    says: /still worked/,
    isVirtual: true,
  },
  {
    name: 'try a run again without a look at its lease',
    file: 'jobs/perform.ts',
    find: 'if (isOver()) return { result: endOf(leadership, hasTimedOut, signal.reason), error, tries }',
    replace: '',
    also: [{ file: 'jobs/perform.ts', find: '    if (!leadership.isLeader()) hasSeenEnd = true\n', replace: '' }],
    says: /still worked/,
    isVirtual: true,
  },
  {
    name: 'forget a job whose lease was lost while the leader of all stays',
    file: 'jobs/scheduled.ts',
    find: 'if (!followed.hasLeft) continue',
    replace: '',
    says: /was left out/,
    isVirtual: true,
    sharedLeader: 'all',
  },
]

/** A mistake that one check of packages/tenure/test/jobs/checks.ts notices, in virtual time. */
export interface CheckedJobMutant extends Mutation {
  /** The name of the check. */
  readonly caughtBy: string
}

export const checkedJobMutants: readonly CheckedJobMutant[] = [
  {
    name: 'run work again that has succeeded in this process',
    file: 'jobs/calls.ts',
    find: "if (done?.report.result === 'succeeded' || done?.report.hasSucceeded) succeeded = asSucceeded(done.run)",
    replace: '',
    caughtBy: 'once() does not repeat work that succeeded while the event loop was blocked past the lease',
  },
  {
    name: 'take work that returned early after a loss for a success',
    file: 'jobs/perform.ts',
    find: 'const hasSucceeded = hasReturned && !hasSeenEnd',
    replace: 'const hasSucceeded = hasReturned',
    caughtBy: 'once() repeats work that returned early because its signal aborted after a loss',
  },
  {
    name: 'answer "ran" without a recorded success',
    file: 'jobs/calls.ts',
    find: 'if (!done?.isNoted) leadership.throwIfLost()',
    replace: '',
    caughtBy: "once() returns 'ran' only after the store has recorded the success",
  },
  {
    name: 'answer "ran" although the second try to record the success failed',
    file: 'jobs/calls.ts',
    find: 'if (!isNoted) leadership.throwIfLost()',
    replace: '',
    caughtBy: "once() returns 'ran' only after the store has recorded the success",
  },
  {
    name: 'not report a lost run of once whose error no caller gets',
    file: 'jobs/calls.ts',
    find: "course.onLoss === 'throw' || happening.type !== 'ended' || happening.run.result !== 'lost'",
    replace: 'Boolean(happening)',
    caughtBy: 'a lost run of once() is reported to onEvent when no job observer is set',
  },
  {
    name: 'not notice that the event loop was blocked',
    file: 'sleep-meter.ts',
    find: 'if (this.#tick && nowMs - this.#tickDueMs >= this.#tickMs)',
    replace: 'if (this.#tickMs === 0)',
    caughtBy: 'a run that was lost because the event loop was blocked is reported with that reason',
  },
  {
    name: 'begin a run after leadership ended while the run was being recorded',
    file: 'jobs/book.ts',
    find: 'if (!isNoted || !this.#leadership.isLeader()) return undefined',
    replace: 'if (!isNoted) return undefined',
    caughtBy: 'a run does not begin when leadership ended while the run was being recorded',
  },
  {
    name: 'campaign for a job after another process became the leader of all',
    file: 'jobs/scheduled.ts',
    find: "gate.signal.addEventListener('abort', end, { once: true })\n    try",
    replace: 'try',
    caughtBy: 'a former shared leader stops campaigning for a job',
  },
  {
    name: 'take a read for an answer after a write has failed',
    file: 'election.ts',
    find: 'hasWriteFailed: s.writeFailedAtMs !== undefined',
    replace: 'hasWriteFailed: false',
    caughtBy: 'a call that does not wait rejects within one lease when the store refuses every write',
  },
  {
    name: 'not take the live lease of another process for an answer after a write has failed',
    file: 'election.ts',
    find: 'isHeld: isHeldByOther(s) }',
    replace: 'isHeld: false }',
    caughtBy: 'a call waits for another process that leads even when its own writes are refused',
  },
]
