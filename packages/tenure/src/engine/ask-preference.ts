/** Asks a process whether it should lead, by the functions in its options. */
import { isPromise } from '../common/check-options.ts'
import { fullName, invalidOption, show, TenureError } from '../common/errors.ts'
import { messageOf } from '@tenure/internal/message'
import type { OptionNames } from '../common/check-options.ts'
import type { ElectionName } from './election-log.ts'
import {
  noPreference,
  priorities,
  type PreferenceAnswer,
  type PreferenceSettings,
  type Priority,
} from './preference.ts'
import { checkDuration } from './timings.ts'

/** Options that say whether this process should lead. They delay it or make it step down, and never grant anything. */
export interface PreferenceOptions {
  /**
   * Whether this process may lead now. It is asked at least once per retry interval, even while the process waits, and
   * must answer at once. It is about this process alone: if it depends on something that all candidates share, nobody
   * leads when that fails. Default: always.
   */
  readonly eligible?: (() => boolean) | undefined
  /** A leader that is not eligible for this long steps down. Default: two retry intervals. */
  readonly ineligibleForMs?: number | undefined
  /**
   * How soon this process takes over. Each step below `normal` waits one retry interval longer after a release or an
   * expiry, or two where the store cannot watch. It is a hint, not an order. Default: `normal`.
   */
  readonly priority?: Priority | (() => Priority) | undefined
  /** A leader that does not call `leadership.progress()` for this long steps down. Default: it need not call it. */
  readonly progressTimeoutMs?: number | undefined
}

/** The names of {@link PreferenceOptions}. */
export const preferenceNames: OptionNames<PreferenceOptions> = {
  eligible: true,
  ineligibleForMs: true,
  priority: true,
  progressTimeoutMs: true,
}

/** Checks the options and returns the settings of the algorithm. */
export function preferenceSettings(options: PreferenceOptions, retryIntervalMs: number): PreferenceSettings {
  const { eligible, ineligibleForMs, priority = 'normal', progressTimeoutMs } = options
  if (eligible !== undefined && typeof eligible !== 'function') {
    throw invalidOption('eligible', eligible, 'it must be a function that returns true or false')
  }
  if (ineligibleForMs !== undefined) checkDuration('ineligibleForMs', ineligibleForMs)
  if (typeof priority !== 'function' && !isPriority(priority)) throw invalidOption('priority', priority, priorityRule)
  if (progressTimeoutMs !== undefined) checkDuration('progressTimeoutMs', progressTimeoutMs, 1)
  const asks = eligible !== undefined || typeof priority === 'function' || progressTimeoutMs !== undefined
  if (!asks && priority === 'normal') return noPreference
  return {
    asks,
    priority: typeof priority === 'function' ? 'normal' : priority,
    ineligibleForMs: ineligibleForMs ?? 2 * retryIntervalMs,
    progressTimeoutMs: progressTimeoutMs ?? Infinity,
  }
}

const priorityRule = `it must be one of ${priorities.map((one) => `"${one}"`).join(', ')}, or a function that returns one`

function isPriority(value: unknown): value is Priority {
  return priorities.some((priority) => priority === value)
}

/** Asks one process. Its functions may throw or answer anything: then it counts as not eligible, or as `normal`. */
export class PreferenceSource {
  /** When the leader's work last reported progress. */
  progressedAtMs = -Infinity
  readonly #options: PreferenceOptions
  readonly #of: ElectionName
  /** The kinds of problems of each option that were reported since it last gave a valid answer. */
  readonly #reported = { eligible: new Set<ProblemKind>(), priority: new Set<ProblemKind>() }

  constructor(options: PreferenceOptions, of: ElectionName) {
    this.#options = options
    this.#of = of
  }

  ask(): PreferenceAnswer {
    const { eligible: isEligible, priority: wanted = 'normal' } = this.#options
    const problems: TenureError[] = []
    const eligible = isEligible === undefined || this.#call('eligible', isEligible, isBoolean, problems) === true
    const priority = typeof wanted === 'function' ? this.#call('priority', wanted, isPriority, problems) : wanted
    const answer = { eligible, priority: priority ?? 'normal', progressedAtMs: this.progressedAtMs }
    const [problem] = problems
    return problem ? { ...answer, problem } : answer
  }

  #call<T>(
    name: 'eligible' | 'priority',
    call: () => unknown,
    isValid: (value: unknown) => value is T,
    problems: TenureError[],
  ): T | undefined {
    const counts = name === 'eligible' ? 'This process counts as not eligible.' : 'The priority counts as "normal".'
    const reported = this.#reported[name]
    const fail = (kind: ProblemKind, what: string, cause?: unknown) => {
      // A problem at every retry interval is one problem, even if the text of an error is never the same.
      if (reported.has(kind)) return undefined
      // One problem is reported at a time. The other option is asked again at the next interval.
      if (problems.length > 0) return undefined
      reported.add(kind)
      const text = `Option "${name}" of "${fullName(this.#of)}" ${what}. ${counts}`
      problems.push(new TenureError('PREFERENCE_FAILED', text, { cause }))
      return undefined
    }
    try {
      const value = call()
      if (isValid(value)) {
        reported.clear()
        return value
      }
      if (!isPromise(value)) return fail('value', `returned ${show(value)}, but it must return ${ruleOf[name]}`)
      // This promise is not awaited, so its rejection must not end the process.
      void Promise.resolve(value).catch(() => undefined)
      return fail(
        'promise',
        `returned a promise, but it must return ${ruleOf[name]} at once: keep the latest result in a variable`,
      )
    } catch (cause) {
      return fail('throw', `threw: ${messageOf(cause)}`, cause)
    }
  }
}

type ProblemKind = 'throw' | 'promise' | 'value'

const ruleOf = { eligible: 'true or false', priority: '"normal", "low", or "lowest"' }

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}
