import type { Mutation } from '../mutants/mutant.ts'

/** A mutant of how jobs are run, which a fleet must reveal. */
export interface JobMutant extends Mutation {
  /** Matches the violation caused by the mutant. */
  readonly says: RegExp
  readonly onlyPauses?: boolean
  /** The mutant needs runs as long as the time between two slots, which only virtual time allows. */
  readonly isVirtual?: boolean
  /** The mutant needs one shared leader for all jobs. */
  readonly sharedLeader?: string
  /** How far the clock of each process must be ahead to reveal the mutant. */
  readonly aheadMs?: (index: number) => number
}

export const jobMutants: readonly JobMutant[] = [
  {
    name: 'record the slot after the run',
    file: 'jobs/job-log.ts',
    find: 'const isNoted = await this.write({ ...planned.head, runs: [run, ...runs] })',
    replace: 'const isNoted = true',
    also: [
      {
        file: 'jobs/job-log.ts',
        find: 'this.write({ ...planned.headAfter?.(report), runs: [ended, ...runs] })',
        replace: 'this.write({ ...planned.head, ...planned.headAfter?.(report), runs: [ended, ...runs] })',
      },
    ],
    says: /ran 2 times/,
  },
  {
    name: 'trust its own wall clock more than the slot that another machine recorded',
    file: 'jobs/schedule.ts',
    find: 'latestMs !== undefined && latestMs > lastMs ? latestMs : undefined',
    replace: 'latestMs !== undefined && latestMs !== lastMs ? latestMs : undefined',
    says: /ran \d times/,
    aheadMs: (index) => index * 1_500,
  },
  {
    name: 'forget a slot that passed during a takeover',
    file: 'jobs/schedule.ts',
    find: 'nowMs - openMs <= this.#toleranceMs',
    replace: 'nowMs - openMs <= 100',
    says: /was skipped/,
    onlyPauses: true,
  },
  {
    name: 'let a run continue after its lease was lost',
    file: 'jobs/run-work.ts',
    find: "else leadership.signal.addEventListener('abort', end, { once: true })",
    replace: '',
    says: /was still running/,
    isVirtual: true,
  },
  {
    name: 'retry a run without checking its lease',
    file: 'jobs/run-work.ts',
    find: 'if (isOver()) return { result: endOf(leadership, hasTimedOut, signal.reason), error, tries }',
    replace: '',
    also: [{ file: 'jobs/run-work.ts', find: '    if (!leadership.isLeader()) hasSeenEnd = true\n', replace: '' }],
    says: /was still running/,
    isVirtual: true,
  },
  {
    name: 'forget a job whose lease was lost while the shared leader stays',
    file: 'jobs/scheduled-jobs.ts',
    find: 'if (!followed.hasLeft) continue',
    replace: '',
    says: /was skipped/,
    isVirtual: true,
    sharedLeader: 'all',
  },
]

/** A mutant that one check of packages/tenure/test/jobs/checks.ts detects, in virtual time. */
export interface CheckedJobMutant extends Mutation {
  /** The name of the check. */
  readonly caughtBy: string
}

export const checkedJobMutants: readonly CheckedJobMutant[] = [
  {
    name: 'run work again that has already succeeded in this process',
    file: 'jobs/called-jobs.ts',
    find: "if (done?.report.result === 'succeeded' || done?.report.hasSucceeded) succeeded = asSucceeded(done.run)",
    replace: '',
    caughtBy: 'once() does not repeat work that succeeded while the event loop was blocked past the lease',
  },
  {
    name: 'treat work that returned early after a loss as a success',
    file: 'jobs/run-work.ts',
    find: 'const hasSucceeded = hasReturned && !hasSeenEnd',
    replace: 'const hasSucceeded = hasReturned',
    caughtBy: 'once() repeats work that returned early because its signal aborted after a loss',
  },
  {
    name: 'answer "ran" without a recorded success',
    file: 'jobs/called-jobs.ts',
    find: 'if (!done?.isNoted) leadership.throwIfLost()',
    replace: '',
    caughtBy: "once() returns 'ran' only after the store has recorded the success",
  },
  {
    name: 'answer "ran" even though the second attempt to record the success failed',
    file: 'jobs/called-jobs.ts',
    find: 'if (!isNoted) leadership.throwIfLost()',
    replace: '',
    caughtBy: "once() returns 'ran' only after the store has recorded the success",
  },
  {
    name: 'do not report a lost run of once whose error no caller gets',
    file: 'jobs/called-jobs.ts',
    find: "course.onLoss === 'throw' || happening.type !== 'ended' || happening.run.result !== 'lost'",
    replace: 'Boolean(happening)',
    caughtBy: 'a lost run of once() is reported to onEvent when no job observer is set',
  },
  {
    name: 'do not notice that the event loop was blocked',
    file: 'engine/sleep-meter.ts',
    find: 'if (this.#tick && nowMs - this.#tickDueMs >= this.#tickMs)',
    replace: 'if (this.#tickMs === 0)',
    caughtBy: 'a run that was lost because the event loop was blocked is reported with that reason',
  },
  {
    name: 'start a run after leadership ended while the run was being recorded',
    file: 'jobs/job-log.ts',
    find: 'if (!isNoted || !this.#leadership.isLeader()) return undefined',
    replace: 'if (!isNoted) return undefined',
    caughtBy: 'a run does not begin when leadership ended while the run was being recorded',
  },
  {
    name: 'campaign for a job after another process became the shared leader',
    file: 'jobs/scheduled-jobs.ts',
    find: "gate.signal.addEventListener('abort', end, { once: true })\n    try",
    replace: 'try',
    caughtBy: 'a former shared leader stops campaigning for a job',
  },
  {
    name: 'treat a successful read as proof that the store works after a write has failed',
    file: 'engine/election.ts',
    find: 'hasWriteFailed: s.writeFailedAtMs !== undefined',
    replace: 'hasWriteFailed: false',
    caughtBy: 'a call that does not wait rejects within one lease when the store refuses every write',
  },
  {
    name: 'do not treat the live lease of another process as proof that the store works after a write has failed',
    file: 'engine/election.ts',
    find: 'isHeld: isHeldByOther(s) }',
    replace: 'isHeld: false }',
    caughtBy: 'a call waits for another process that leads even when its own writes are refused',
  },
]
