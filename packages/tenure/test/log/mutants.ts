/** Mistakes that would hide failures, or let a listener end the process. Each must fail the check it names. */
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { checks } from './checks.ts'

export interface LogMutation extends Mutation {
  readonly caughtBy: keyof typeof checks
}

export const logMutations: readonly LogMutation[] = [
  {
    name: 'write each kind of line only in its first minute',
    file: 'log-lines.ts',
    find: 'if (nowMs >= window.startMs + windowMs) {',
    replace: 'if (nowMs >= window.startMs + windowMs && nowMs < 0) {',
    caughtBy: 'failingJob',
  },
  {
    name: 'drop the lines beyond the fifth instead of counting them',
    file: 'log-lines.ts',
    find: 'window.held += 1',
    replace: 'window.held += 0',
    caughtBy: 'manyElectors',
  },
  {
    name: 'write every line, however many there are',
    file: 'log-lines.ts',
    find: 'const mostLines = 5',
    replace: 'const mostLines = Infinity',
    caughtBy: 'manyElectors',
  },
  {
    name: 'keep to itself which jobs failed beyond the fifth line',
    file: 'log-lines.ts',
    find: 'heldNames.set(name, (heldNames.get(name) ?? 0) + 1)',
    replace: '',
    caughtBy: 'failingJobs',
  },
  {
    name: 'write a count whenever the last elector stops',
    file: 'log-lines.ts',
    find: 'if (window.held === 0 || window.isSummed) continue',
    replace: 'if (window.held === 0) continue',
    caughtBy: 'shortLives',
  },
  {
    name: 'keep the loss of leadership to itself',
    file: 'elector.ts',
    find: 'if (loss) this.#log.ended(loss)',
    replace: '',
    caughtBy: 'outages',
  },
  {
    name: 'report no recovery',
    file: 'election-log.ts',
    find: 'if (!isOver || outage.reported.size === 0) return',
    replace: 'if (!isOver || outage.failures > 0) return',
    caughtBy: 'outages',
  },
  {
    name: 'report the first outage only',
    file: 'election-log.ts',
    find: 'if (isOver) this.#past.outage = undefined\n',
    replace: '\n',
    caughtBy: 'outages',
  },
  {
    name: 'take a read for the end of an outage in which writes fail',
    file: 'election-log.ts',
    find: "outage.hasWriteFailed ||= verb !== 'read'",
    replace: '',
    caughtBy: 'readableOutages',
  },
  {
    name: 'wait for its own write while another process leads',
    file: 'election-log.ts',
    find: 'isHeld: reply.isHeld })',
    replace: 'isHeld: false })',
    caughtBy: 'readableOutages',
  },
  {
    name: 'keep to itself that leadership was regained',
    file: 'election-log.ts',
    find: 'this.#past.lostAtMs = this.#clock.monotonicMs()',
    replace: '',
    caughtBy: 'outages',
  },
  {
    name: 'forget an outage with the key that it cost',
    file: 'styles/elections.ts',
    find: 'const past = pasts.get(key) ?? {}',
    replace: 'const past = {}',
    caughtBy: 'plainAnswers',
  },
  {
    name: 'report each failed call of an outage',
    file: 'election-log.ts',
    find: 'const remindMs = 60_000',
    replace: 'const remindMs = 0',
    caughtBy: 'outages',
  },
  {
    name: 'keep a missed run of a job to itself',
    file: 'jobs/reporter.ts',
    find: "if (happening.type === 'missed') {",
    replace: "if (happening.type === 'missed' && job === '') {",
    caughtBy: 'failingJob',
  },
  {
    name: 'forget why a lease was not renewed',
    file: 'leadership.ts',
    find: 'isExpired ? this.#reign.storeError : undefined',
    replace: 'undefined',
    caughtBy: 'causes',
  },
  {
    name: 'let what a listener rejects with reach the process',
    file: '../../internal/src/contain.ts',
    find: '.catch(fail)',
    replace: '',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'let a report of a failed listener fail',
    file: '../../internal/src/contain.ts',
    find: 'if (result !== undefined) new Promise((resolve) => resolve(result)).catch(fail)',
    replace: 'if (result !== undefined) Promise.resolve(result).catch(report)',
    also: [
      {
        file: 'elector.ts',
        find: 'this.#log.listenerFailed(error)',
        replace: 'throw error',
      },
    ],
    caughtBy: 'brokenListeners',
  },
  {
    name: 'let a log that throws end the call that reports to it',
    file: 'log-lines.ts',
    find: `contain(
      () => this.#log[level](\`tenure: \${text}\`),
      () => undefined,
    )`,
    replace: 'this.#log[level](`tenure: ${text}`)',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'let a listener of a schedule throw in a timer',
    file: 'jobs/events.ts',
    find: `contain(
      () => tell(happening),
      () => undefined,
    )`,
    replace: 'tell(happening)',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'call onError without containing it',
    file: 'styles/manager.ts',
    find: '() => this.onError?.(event.error),',
    replace: '() => void this.onError?.(event.error),',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'take every stack for text',
    file: 'election-log.ts',
    find: "return typeof stack === 'string' ? stack : undefined",
    replace: 'return stack as string',
    caughtBy: 'oddFailures',
  },
  {
    name: 'leave work pending whose report fails',
    file: 'elector.ts',
    find: `.catch(report)
      .catch(() => undefined)`,
    replace: '.catch(report)',
    also: [
      {
        file: 'election-log.ts',
        find: "return typeof stack === 'string' ? stack : undefined",
        replace: 'return stack as string',
      },
    ],
    caughtBy: 'oddFailures',
  },
  {
    name: 'expect a promise of a TTL storage',
    file: 'stores/ttl.ts',
    find: 'Promise.resolve(answer)',
    replace: '(answer as Promise<T>)',
    caughtBy: 'plainAnswers',
  },
  {
    name: 'fix a deadline that was not given at two thirds of the lease',
    file: 'timings.ts',
    find: 'given.renewDeadlineMs ?? Math.min(latestMs, Math.max(usualDeadlineMs, laterMs))',
    replace: 'usualDeadlineMs',
    caughtBy: 'givenTimings',
  },
  {
    name: 'scale the deadline of client-go with the lease',
    file: 'styles/leader-elector-options.ts',
    find: 'if (usualDeadlineMs >= neededMs && usualDeadlineMs <= latestMs) return usualDeadlineMs',
    replace: '',
    caughtBy: 'givenTimings',
  },
]
