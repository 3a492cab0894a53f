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
    ...command.options.slice(0, 1).map(({ long = '' }) => {
      const variable = `TENURE_${long.replace('--', '').replaceAll('-', '_').toUpperCase()}`
      return `Every option can be set in the environment too: ${long} is ${variable}.`
    }),
    `Exit codes: ${exitCodes}.`,
  ]
  return command.addHelpText('after', text.join('\n'))
}
