import type { RunEnd } from './guarded-run.ts'

export const restartPolicies = ['never', 'on-failure', 'always'] as const

/** What follows when the command has exited. */
export interface RestartRules {
  readonly policy: (typeof restartPolicies)[number]
  readonly firstDelayMs: number
}

const longestDelayMs = 60_000

/** Whether the command succeeded. */
export function hasSucceeded(end: RunEnd): boolean {
  return end.type === 'exited' && end.code === 0
}

const passing = ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']

/** Whether it could not be started for a reason that passes: too many processes or files, too little memory. */
export function isPassing(end: RunEnd): boolean {
  return end.type === 'not-started' && end.code !== undefined && passing.includes(end.code)
}

/** Whether it is to be started again. */
export function startsAgain({ policy }: RestartRules, end: RunEnd): boolean {
  return policy === 'always' || (policy === 'on-failure' && !hasSucceeded(end))
}

/** Waits twice as long each time, up to a minute. A run that lasted longer than that was a good one: begin anew. */
export class BackOff {
  readonly #firstDelayMs: number
  #nextMs: number

  constructor(firstDelayMs: number) {
    this.#firstDelayMs = firstDelayMs
    this.#nextMs = firstDelayMs
  }

  /** How long to wait after a run that lasted so long. */
  after(lastedMs: number): number {
    if (lastedMs >= longestDelayMs) this.#nextMs = this.#firstDelayMs
    const delayMs = this.#nextMs
    this.#nextMs = Math.max(delayMs, Math.min(delayMs * 2, longestDelayMs))
    return delayMs
  }
}
