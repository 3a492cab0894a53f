import { callSafely } from '@tenure/internal/call-safely'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../common/clock.ts'
import { stackOf } from '../engine/election-log.ts'
import { isTenureError, TenureError } from '../common/errors.ts'
import type { Observer } from '../engine/events.ts'
import type { Log } from '../log/log.ts'
import { formatDuration, LogLines } from '../log/rate-limited-log.ts'
import type { JobEventBody, JobObserver } from './events.ts'

/**
 * Reports job events to the observer and the log. Every failure is reported to at least one of them, or to the caller.
 */
export class JobReporter {
  readonly identity: string
  readonly #observer: JobObserver | undefined
  /** Undefined if the observer receives failures instead. */
  readonly #lines: LogLines | undefined
  /** Logs errors that the observer itself throws, because they cannot be reported to that observer. */
  readonly #ofListeners: LogLines | undefined

  constructor(identity: string, clock: Clock, observer: JobObserver | undefined, log: Log | false | undefined) {
    this.identity = identity
    this.#observer = observer
    this.#ofListeners = LogLines.of(clock, log)
    const isObserved = observer?.onJob !== undefined || observer?.onEvent !== undefined
    this.#lines = log === undefined && isObserved ? undefined : this.#ofListeners
  }

  /** The observer for electors, which do not know about jobs. */
  get ofElections(): Observer | undefined {
    const observer = this.#observer
    if (!observer?.onEvent && !observer?.onCall) return undefined
    return {
      ...(observer.onEvent && { onEvent: (event) => observer.onEvent?.(event) }),
      ...(observer.onCall && { onCall: (report) => observer.onCall?.(report) }),
    }
  }

  /** `isAwaited` is true if a caller awaits this run and receives its error. */
  tell(job: string, happening: JobEventBody, isAwaited = false): void {
    const observer = this.#observer
    const error = isAwaited ? undefined : failureOf(job, happening)
    if (error !== undefined) this.#logFailure(job, error)
    else this.#logProgress(job, happening)
    if (observer?.onJob) {
      this.#contain(job, () => observer.onJob?.({ job, identity: this.identity, ...happening }))
    } else if (error !== undefined) {
      this.#contain(job, () => observer?.onEvent?.({ type: 'error', error, election: job, identity: this.identity }))
    }
  }

  #logFailure(job: string, error: unknown): void {
    const message = messageOf(error)
    const text = message.includes(`"${job}"`) ? message : `job "${job}": ${message}`
    const isOfWork = isTenureError(error) && error.code === 'WORK_FAILED'
    this.#lines?.write('error', text, { name: job, detailOf: () => (isOfWork ? stackOf(error) : undefined) })
  }

  #logProgress(job: string, happening: JobEventBody): void {
    if (happening.type === 'retrying') {
      const { error, delayMs } = happening
      this.#lines?.write('info', `job "${job}" will be retried in ${formatDuration(delayMs)}: ${messageOf(error)}`)
    } else if (happening.type === 'ended' && happening.run.result === 'succeeded') {
      const { scheduledAt, durationMs = 0 } = happening.run
      const time = `${scheduledAt.toISOString()} succeeded after ${formatDuration(durationMs)}`
      this.#lines?.write('info', `the run of "${job}" for ${time}`)
    }
  }

  #contain(job: string, callListener: () => unknown): void {
    callSafely(callListener, (cause) => {
      const error = new TenureError('WORK_FAILED', `The observer of job "${job}" failed: ${messageOf(cause)}`, {
        cause,
      })
      this.#ofListeners?.write('error', error.message, {
        name: job,
        countsRepeats: true,
        detailOf: () => stackOf(error),
      })
    })
  }
}

/**
 * The error of an event that must not go unnoticed: a run that failed or never started, or anything that keeps a job
 * from running.
 */
function failureOf(job: string, happening: JobEventBody): unknown {
  if (happening.type === 'error') return happening.error
  if (happening.type === 'missed') {
    const time = happening.scheduledAt.toISOString()
    const text = `The run of "${job}" for ${time} was missed, because no process could start it in time`
    return new TenureError('WORK_FAILED', `${text}.`)
  }
  if (happening.type !== 'ended') return undefined
  const { run, error } = happening
  if (run.result !== 'failed' && run.result !== 'timed-out' && run.result !== 'lost') return undefined
  const what = run.result === 'lost' ? 'was lost' : 'failed'
  const text = `The run of "${job}" for ${run.scheduledAt.toISOString()} ${what}: ${messageOf(error)}`
  return new TenureError('WORK_FAILED', text, { cause: error })
}
