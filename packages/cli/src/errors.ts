/** Exit codes as sysexits.h has them, as far as a supervisor or a script can use the difference. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  unavailable: 69,
  leadershipLost: 75,
  notExecutable: 126,
  notFound: 127,
} as const

/** Ends the command with a message for people and an exit code; nobody needs its stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, exitCode: number, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** The command was called wrongly. Each problem is told, so that one run is enough to mend them all. */
export function usageError(problems: readonly string[]): CommandError {
  return new CommandError(problems.join('\n'), exitCodes.usage)
}
