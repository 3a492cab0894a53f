import { contain } from '@tenure/internal/contain'
import { messageOf } from '@tenure/internal/message'
import type { Clock } from '../clock.ts'
import { stackOf } from '../election-log.ts'
import { isTenureError, TenureError } from '../errors.ts'
import type { Observer } from '../events.ts'
import type { Log } from '../log.ts'
import { inWords, LogLines } from '../log-lines.ts'
import type { JobHappening, JobObserver } from './events.ts'

/** Brings what happens to jobs to their observer and to the log. Every failure reaches somebody. */
export class Reporter {
  readonly identity: string
  readonly #observer: JobObserver | undefined
  /** Undefined if the observer gets failures instead. */
  readonly #lines: LogLines | undefined
  /** For the observer's own mistakes, which cannot be reported to that observer. */
  readonly #ofListeners: LogLines | undefined

  constructor(identity: string, clock: Clock, observer: JobObserver | undefined, log: Log | false | undefined) {
    this.identity = identity
    this.#observer = observer
    this.#ofListeners = LogLines.of(clock, log)
    const isObserved = observer?.onJob !== undefined || observer?.onEvent !== undefined
    this.#lines = log === undefined && isObserved ? undefined : this.#ofListeners
  }

  /** For electors, which know nothing of jobs. */
  get ofElections(): Observer | undefined {
    const observer = this.#observer
    if (!observer?.onEvent && !observer?.onCall) return undefined
    return {
      ...(observer.onEvent && { onEvent: (event) => observer.onEvent?.(event) }),
      ...(observer.onCall && { onCall: (report) => observer.onCall?.(report) }),
    }
  }

  /** `isAwaited`: somebody waits for this run, and gets what it throws. */
  tell(job: string, happening: JobHappening, isAwaited = false): void {
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

  #logProgress(job: string, happening: JobHappening): void {
    if (happening.type === 'retrying') {
      const { error, delayMs } = happening
      this.#lines?.write('info', `job "${job}" is tried again in ${inWords(delayMs)}: ${messageOf(error)}`)
    } else if (happening.type === 'ended' && happening.run.result === 'succeeded') {
      const { scheduledAt, durationMs = 0 } = happening.run
      const time = `${scheduledAt.toISOString()} succeeded after ${inWords(durationMs)}`
      this.#lines?.write('info', `the run of "${job}" for ${time}`)
    }
  }

  #contain(job: string, callListener: () => unknown): void {
    contain(callListener, (cause) => {
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

/** What nobody may miss: a run that failed or never began, and what keeps a job from running. */
function failureOf(job: string, happening: JobHappening): unknown {
  if (happening.type === 'error') return happening.error
  if (happening.type === 'missed') {
    const time = happening.scheduledAt.toISOString()
    const text = `The run of "${job}" for ${time} was missed: no process could begin it in time`
    return new TenureError('WORK_FAILED', `${text}.`)
  }
  if (happening.type !== 'ended') return undefined
  const { run, error } = happening
  if (run.result !== 'failed' && run.result !== 'timed-out' && run.result !== 'lost') return undefined
  const what = run.result === 'lost' ? 'was lost' : 'failed'
  const text = `The run of "${job}" for ${run.scheduledAt.toISOString()} ${what}: ${messageOf(error)}`
  return new TenureError('WORK_FAILED', text, { cause: error })
}
