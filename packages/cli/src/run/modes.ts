import { isTenureError, type Leadership } from 'tenure'
import { followSchedule, runAtMostOncePer, type JobEventBody, type JobSchedule, type RunReport } from 'tenure/jobs'
import { formatDuration } from '../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../shared/arguments/errors.ts'
import { now, setTimer, untilMs } from '../shared/clock.ts'
import type { Mode, NextStep, RunContext } from './runner.ts'
import type { Executed } from './executor.ts'
import { Backoff, shouldRestart, type RestartRules } from './restart.ts'
import { exitCodeOf, endText, hasSucceeded, isTemporary } from './run-end.ts'

const atOnce: NextStep = { againAfterMs: 0 }
/** How often `--hold` checks that it still leads. */
const longestSleepMs = 10_000

/**
 * Returns the exit code if `tenure run` must exit now in every mode: after a signal, or if the command cannot be
 * started.
 */
function finalCode({ end }: Executed, { stop }: RunContext): number | undefined {
  return stop.signal || (end.type === 'not-started' && !isTemporary(end)) ? exitCodeOf(end) : undefined
}

/** Returns the exit code after the last run. */
function codeAfter({ end, hasTimedOut }: Executed): number {
  return hasTimedOut ? exitCodes.timedOut : exitCodeOf(end)
}

function isLost(done: Executed | undefined, leadership: Leadership): boolean {
  return !done || (!leadership.isLeader() && (done.wasTold || !hasSucceeded(done.end)))
}

/** Waits for a while, or until leadership ends. Resolves to whether this process still leads. */
function pause(leadership: Leadership, delayMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = () => {
      cancel()
      leadership.signal.removeEventListener('abort', settle)
      resolve(leadership.isLeader())
    }
    const cancel = setTimer(delayMs, settle)
    if (leadership.signal.aborted) settle()
    else leadership.signal.addEventListener('abort', settle, { once: true })
  })
}

/** Runs the command while this machine leads, and restarts it according to the rules. */
export function service(rules: RestartRules & { readonly once: boolean; readonly hold: boolean }): Mode {
  const backOff = new Backoff(rules.firstDelayMs)
  return {
    isTask: rules.once,
    async lead(leadership, stage) {
      const { reporter, executor, stop } = stage
      for (;;) {
        const done = await executor.execute(leadership)
        const code = done ? finalCode(done, stage) : stop.code(this)
        if (code !== undefined) return { code }
        if (!done || isLost(done, leadership)) return rules.once ? { code: exitCodes.leadershipLost } : atOnce
        if (!shouldRestart(rules, done)) {
          if (rules.hold) reporter.reportUnlessQuiet('keeping the lease until tenure is stopped')
          while (rules.hold && (await pause(leadership, longestSleepMs)));
          return { code: codeAfter(done) }
        }
        const againAfterMs = backOff.after(done.lastedMs)
        reporter.reportUnlessQuiet(
          `restarting the command in ${formatDuration(againAfterMs)}${rules.hold ? '' : ', unless another machine leads by then'}`,
        )
        if (!rules.hold) return { againAfterMs }
        if (await pause(leadership, againAfterMs)) continue
        const stopCode = stop.code(this)
        return stopCode === undefined ? atOnce : { code: stopCode }
      }
    },
  }
}

/** Runs the command at the times of a schedule, and keeps the lease in between. */
export function scheduled(schedule: JobSchedule): Mode {
  return {
    isTask: false,
    async lead(leadership, stage) {
      const { executor, stop } = stage
      const { final } = await withRecordErrors(() =>
        followSchedule<number>(leadership, {
          schedule,
          tell: (happening) => reportJobEvent(happening, stage),
          async perform({ run }) {
            const done = await executor.execute(leadership, { TENURE_SCHEDULED_AT: run.scheduledAt.toISOString() })
            return done && { ...reportOf(done, leadership), final: finalCode(done, stage) }
          },
        }),
      )
      const code = final ?? stop.code(this)
      return code === undefined ? atOnce : { code }
    },
  }
}

/** Runs the command unless the fleet has done so within the interval, and exits in either case. */
export function atMostOncePer(intervalMs: number): Mode {
  const calledAt = now()
  return {
    isTask: true,
    async lead(leadership, stage) {
      const { reporter, executor, stop } = stage
      let done: Executed | undefined
      const outcome = await withRecordErrors(() =>
        runAtMostOncePer(leadership, {
          intervalMs,
          calledAgoMs: () => -untilMs(calledAt),
          tell: (happening) => reportJobEvent(happening, stage),
          async perform() {
            done = await executor.execute(leadership)
            return done && reportOf(done, leadership)
          },
        }),
      )
      if ('servedMs' in outcome) {
        reporter.reportUnlessQuiet(`the last run was at ${new Date(outcome.servedMs).toISOString()}: nothing to do`)
        return { code: 0 }
      }
      if (done && !isLost(done, leadership)) return { code: codeAfter(done) }
      const code = done ? finalCode(done, stage) : stop.code(this)
      return { code: code ?? exitCodes.leadershipLost }
    },
  }
}

/** Converts a run of the command to the report that is stored in the record. */
function reportOf(done: Executed, leadership: Leadership): RunReport {
  const { end, hasTimedOut, wasTold } = done
  if (hasSucceeded(end) && !hasTimedOut) return { result: 'succeeded' }
  const isAsked = wasTold && leadership.signal.aborted
  const result = hasTimedOut ? 'timed-out' : isAsked ? 'stopped' : isLost(done, leadership) ? 'lost' : 'failed'
  return { result, error: endText(end) }
}

function reportJobEvent(happening: JobEventBody, { reporter }: RunContext): void {
  if (happening.type === 'scheduled')
    reporter.reportUnlessQuiet(`the next run is at ${happening.scheduledAt.toISOString()}`)
  else if (happening.type === 'missed') {
    reporter.tell(`the run of ${happening.scheduledAt.toISOString()} was missed and is skipped`)
  } else if (happening.type === 'still-running') {
    const { run, scheduledAt } = happening
    reporter.tell(`the run of ${run.scheduledAt.toISOString()} is still in progress at ${scheduledAt.toISOString()}`)
  }
}

/** Exits if the record belongs to another program, because waiting cannot fix that. */
async function withRecordErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isTenureError(error) && error.code === 'RECORD_INVALID') {
      throw new CommandError(error.message, exitCodes.failed, { cause: error })
    }
    throw error
  }
}
