import { messageOf } from '@tenure/internal/message'

/** Exit codes. They follow sysexits.h where a supervisor or a script can use the distinction. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  unavailable: 69,
  leadershipLost: 75,
  /** Another process held the lock for too long. flock(1) also has an exit code for that. */
  lockTimeout: 75,
  /** The exit code of timeout(1). */
  timedOut: 124,
  notExecutable: 126,
  notFound: 127,
} as const

/** Ends the command with a message for the user and an exit code, without a stack trace. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, exitCode: number, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** Reports invalid usage. It lists all problems at once, so that the user can fix them in one go. */
export function usageError(problems: readonly string[]): CommandError {
  return new CommandError(problems.join('\n'), exitCodes.usage)
}

/** Reports that something the command needs is unavailable. `text` replaces the message of `error` if it is clearer. */
export function unavailable(error: unknown, text = messageOf(error)): CommandError {
  return new CommandError(text, exitCodes.unavailable, { cause: error })
}
