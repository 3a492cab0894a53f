/** Mutants that hide failures, or let a listener end the process. Each must fail the check that it names. */
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { checks } from './checks.ts'

export interface LogMutation extends Mutation {
  readonly caughtBy: keyof typeof checks
}

export const logMutations: readonly LogMutation[] = [
  {
    name: 'write each kind of line only in its first minute',
    file: 'log/rate-limited-log.ts',
    find: 'if (nowMs >= window.startMs + windowMs) {',
    replace: 'if (nowMs >= window.startMs + windowMs && nowMs < 0) {',
    caughtBy: 'failingJob',
  },
  {
    name: 'drop the lines beyond the fifth instead of counting them',
    file: 'log/rate-limited-log.ts',
    find: 'window.held += 1',
    replace: 'window.held += 0',
    caughtBy: 'manyElectors',
  },
  {
    name: 'write every line without a limit',
    file: 'log/rate-limited-log.ts',
    find: 'const mostLines = 5',
    replace: 'const mostLines = Infinity',
    caughtBy: 'manyElectors',
  },
  {
    name: 'leave the failed jobs beyond the fifth line unnamed',
    file: 'log/rate-limited-log.ts',
    find: 'heldNames.set(name, (heldNames.get(name) ?? 0) + 1)',
    replace: '',
    caughtBy: 'failingJobs',
  },
  {
    name: 'write a count whenever the last elector stops',
    file: 'log/rate-limited-log.ts',
    find: 'if (window.held === 0 || window.isSummed) continue',
    replace: 'if (window.held === 0) continue',
    caughtBy: 'shortLives',
  },
  {
    name: 'omit the log line for a loss of leadership',
    file: 'engine/elector.ts',
    find: 'if (loss) this.#log.ended(loss)',
    replace: '',
    caughtBy: 'outages',
  },
  {
    name: 'log no recovery',
    file: 'engine/election-log.ts',
    find: 'if (!isOver || outage.reported.size === 0) return',
    replace: 'if (!isOver || outage.failures > 0) return',
    caughtBy: 'outages',
  },
  {
    name: 'log only the first outage',
    file: 'engine/election-log.ts',
    find: 'if (isOver) this.#past.outage = undefined\n',
    replace: '\n',
    caughtBy: 'outages',
  },
  {
    name: 'end an outage on a successful read while writes fail',
    file: 'engine/election-log.ts',
    find: "outage.hasWriteFailed ||= verb !== 'read'",
    replace: '',
    caughtBy: 'readableOutages',
  },
  {
    name: 'wait for a write of this process while another process leads',
    file: 'engine/election-log.ts',
    find: 'isHeld: reply.isHeld })',
    replace: 'isHeld: false })',
    caughtBy: 'readableOutages',
  },
  {
    name: 'omit the log line for regained leadership',
    file: 'engine/election-log.ts',
    find: 'this.#past.lostAtMs = this.#clock.monotonicMs()',
    replace: '',
    caughtBy: 'outages',
  },
  {
    name: 'forget an outage after it ended the leadership of a key',
    file: 'api/create-elections.ts',
    find: 'const past = pasts.get(key) ?? {}',
    replace: 'const past = {}',
    caughtBy: 'plainAnswers',
  },
  {
    name: 'log every failed call of an outage',
    file: 'engine/election-log.ts',
    find: 'const remindMs = 60_000',
    replace: 'const remindMs = 0',
    caughtBy: 'outages',
  },
  {
    name: 'omit the log line for a missed run of a job',
    file: 'jobs/reporter.ts',
    find: "if (happening.type === 'missed') {",
    replace: "if (happening.type === 'missed' && job === '') {",
    caughtBy: 'failingJob',
  },
  {
    name: 'drop the store error that prevented the renewal',
    file: 'engine/leadership.ts',
    find: 'isExpired ? this.#host.storeError : undefined',
    replace: 'undefined',
    caughtBy: 'causes',
  },
  {
    name: 'let the rejection of a listener reach the process',
    file: '../../internal/src/call-safely.ts',
    find: '.catch(fail)',
    replace: '',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'throw while reporting a failed listener',
    file: '../../internal/src/call-safely.ts',
    find: 'if (result !== undefined) new Promise((resolve) => resolve(result)).catch(fail)',
    replace: 'if (result !== undefined) Promise.resolve(result).catch(report)',
    also: [
      {
        file: 'engine/elector.ts',
        find: 'this.#log.listenerFailed(error)',
        replace: 'throw error',
      },
    ],
    caughtBy: 'brokenListeners',
  },
  {
    name: 'let a log that throws end the call that writes to it',
    file: 'log/rate-limited-log.ts',
    find: `callSafely(
      () => this.#log[level](\`tenure: \${text}\`),
      () => undefined,
    )`,
    replace: 'this.#log[level](`tenure: ${text}`)',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'let a schedule listener throw in a timer',
    file: 'jobs/events.ts',
    find: `callSafely(
      () => tell(happening),
      () => undefined,
    )`,
    replace: 'tell(happening)',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'call onError without catching its rejection',
    file: 'api/manager.ts',
    find: '() => this.onError?.(event.error),',
    replace: '() => void this.onError?.(event.error),',
    caughtBy: 'brokenListeners',
  },
  {
    name: 'treat every stack as text',
    file: 'engine/election-log.ts',
    find: "return typeof stack === 'string' ? stack : undefined",
    replace: 'return stack as string',
    caughtBy: 'oddFailures',
  },
  {
    name: 'leave work pending when its failure report fails',
    file: 'engine/elector.ts',
    find: `.catch(report)
      .catch(() => undefined)`,
    replace: '.catch(report)',
    also: [
      {
        file: 'engine/election-log.ts',
        find: "return typeof stack === 'string' ? stack : undefined",
        replace: 'return stack as string',
      },
    ],
    caughtBy: 'oddFailures',
  },
  {
    name: 'require a promise from a TTL storage',
    file: 'store-kit/ttl-store.ts',
    find: 'Promise.resolve(answer)',
    replace: '(answer as Promise<T>)',
    caughtBy: 'plainAnswers',
  },
  {
    name: 'set an omitted deadline to two thirds of the lease',
    file: 'engine/timings.ts',
    find: 'given.renewDeadlineMs ?? Math.min(latestMs, Math.max(usualDeadlineMs, laterMs))',
    replace: 'usualDeadlineMs',
    caughtBy: 'givenTimings',
  },
  {
    name: "scale client-go's default deadline with the lease",
    file: 'api/leader-elector-options.ts',
    find: 'if (usualDeadlineMs >= neededMs && usualDeadlineMs <= latestMs) return usualDeadlineMs',
    replace: '',
    caughtBy: 'givenTimings',
  },
]
