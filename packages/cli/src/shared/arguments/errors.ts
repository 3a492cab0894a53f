import { messageOf } from '@tenure/internal/message'

/** Exit codes, by sysexits.h where a supervisor or a script can use the difference. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  unavailable: 69,
  leadershipLost: 75,
  /** As timeout(1) has it. */
  timedOut: 124,
  notExecutable: 126,
  notFound: 127,
} as const

/** Ends the command with a message for people and an exit code, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, exitCode: number, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** The command was called wrongly. All problems are reported at once, so that one run is enough to mend them. */
export function usageError(problems: readonly string[]): CommandError {
  return new CommandError(problems.join('\n'), exitCodes.usage)
}

/** Something that the command needs cannot be used, as the error or a clearer text says. */
export function unavailable(error: unknown, text = messageOf(error)): CommandError {
  return new CommandError(text, exitCodes.unavailable, { cause: error })
}
