import type { Executed } from './executor.ts'
import { hasSucceeded } from './run-end.ts'
import type { restartPolicies } from './settings.ts'

/** When to restart the command after it has exited. */
export interface RestartRules {
  readonly policy: (typeof restartPolicies)[number]
  readonly firstDelayMs: number
}

const longestDelayMs = 60_000

/** Whether to start the command again. */
export function shouldRestart({ policy }: RestartRules, { end, hasTimedOut }: Executed): boolean {
  return policy === 'always' || (policy === 'on-failure' && (hasTimedOut || !hasSucceeded(end)))
}

/** Doubles the delay each time, up to a minute. A run that lasts at least a minute resets it. */
export class Backoff {
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
