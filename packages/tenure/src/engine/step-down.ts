import { checkOptions, type OptionNames } from '../common/check-options.ts'
import { invalidOption } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkDuration } from './timings.ts'

/** Options of `stepDown`. */
export interface StepDownOptions {
  /** How long this elector stays out of the election afterwards. Default: one lease duration. */
  readonly cooldownMs?: number | undefined
  /**
   * The identity of the candidate that should lead next. It contends at once, even during its own cooldown, while the
   * others wait for one retry interval, or two where the store cannot watch. Default: nobody in particular.
   */
  readonly to?: string | undefined
}

const names: OptionNames<StepDownOptions> = { cooldownMs: true, to: true }

/** Checks the options of an elector with this identity, and returns the input of the election. */
export function stepDownInput(options: StepDownOptions, identity: string, leaseDurationMs: number) {
  checkOptions('stepDown()', options, names)
  const { to: successor, cooldownMs = leaseDurationMs } = options
  checkDuration('cooldownMs', cooldownMs)
  if (successor !== undefined) checkName('to', successor)
  if (successor === identity) {
    throw invalidOption('to', successor, 'it must name another candidate, because this one steps down')
  }
  return { type: 'step-down', cooldownMs, successor } as const
}
