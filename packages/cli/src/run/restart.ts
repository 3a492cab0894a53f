import type { Executed } from './executor.ts'
import { hasSucceeded } from './run-end.ts'
import type { restartPolicies } from './settings.ts'

/** What follows when the command has exited. */
export interface RestartRules {
  readonly policy: (typeof restartPolicies)[number]
  readonly firstDelayMs: number
}

const longestDelayMs = 60_000

/** Whether it is to be started again. */
export function startsAgain({ policy }: RestartRules, { end, hasTimedOut }: Executed): boolean {
  return policy === 'always' || (policy === 'on-failure' && (hasTimedOut || !hasSucceeded(end)))
}

/** Waits twice as long each time, up to a minute. After a run that lasted longer than that, it begins again. */
export class BackOff {
  readonly #firstDelayMs: number
  #nextMs: number

  constructor(firstDelayMs: number) {
    this.#firstDelayMs = firstDelayMs
    this.#nextMs = firstDelayMs
  }

  /** How long to wait after a run that lasted `lastedMs`. */
  after(lastedMs: number): number {
    if (lastedMs >= longestDelayMs) this.#nextMs = this.#firstDelayMs
    const delayMs = this.#nextMs
    this.#nextMs = Math.max(delayMs, Math.min(delayMs * 2, longestDelayMs))
    return delayMs
  }
}
