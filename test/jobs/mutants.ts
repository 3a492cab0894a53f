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
