import type { Command } from 'commander'

/** Puts below the options what a reader copies, and what a script compares. */
export function describe(
  command: Command,
  { examples, notes = [], exitCodes }: { examples: readonly string[]; notes?: readonly string[]; exitCodes: string },
): Command {
  const text = [
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
    '',
    ...notes,
    ...(command.options.length > 0
      ? ['Every option can be set in the environment too: --token-file is TENURE_TOKEN_FILE.']
      : []),
    `Exit codes: ${exitCodes}.`,
  ]
  return command.addHelpText('after', text.join('\n'))
}
