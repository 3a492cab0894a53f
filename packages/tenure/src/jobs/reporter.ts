import { messageOf } from '@tenure/internal/message'
import { contain } from '../contain.ts'
import { TenureError } from '../errors.ts'
import type { Observer } from '../events.ts'
import { warnOnce } from '../warnings.ts'
import type { JobHappening, JobObserver } from './events.ts'

/** Brings what happens to jobs to their observer. What nobody would hear of otherwise becomes a warning. */
export class Reporter {
  readonly identity: string
  readonly #observer: JobObserver | undefined

  constructor(identity: string, observer: JobObserver | undefined) {
    this.identity = identity
    this.#observer = observer
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
    if (observer?.onJob) {
      return contain(() => observer.onJob?.({ job, identity: this.identity, ...happening }), warnOnce)
    }
    const error = isAwaited ? undefined : failureOf(job, happening)
    if (error === undefined) return
    if (!observer?.onEvent) return warnOnce(error)
    contain(() => observer.onEvent?.({ type: 'error', error, election: job, identity: this.identity }), warnOnce)
  }
}

function failureOf(job: string, happening: JobHappening): unknown {
  if (happening.type === 'error') return happening.error
  if (happening.type !== 'ended') return undefined
  const { run, error } = happening
  if (run.result !== 'failed' && run.result !== 'timed-out') return undefined
  const text = `The run of "${job}" for ${run.scheduledAt.toISOString()} failed: ${messageOf(error)}`
  return new TenureError('WORK_FAILED', text, { cause: error })
}
