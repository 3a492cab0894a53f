import { Command } from 'commander'
import { tell } from '../output.ts'
import { addFlags, passwordWarnings, variableOf, type Sources, type SettingsTable } from './settings.ts'

/** A command: its help text and its action. */
export interface Declaration {
  readonly name: string
  /** The positional argument, such as `<election>`. */
  readonly argument?: string
  readonly summary: string
  readonly settings: SettingsTable
  /** Examples that the user can copy. */
  readonly examples: readonly string[]
  readonly notes?: readonly string[]
  /** The exit codes, for scripts. */
  readonly exitCodes: string
  /** Whether the command writes a log to standard error, and reports warnings there itself. */
  readonly logs?: boolean
  /**
   * Runs the command. Imports the command's code only now, so that other commands start fast. `argument` is the
   * positional argument.
   */
  run(flags: Sources['flags'], argument: string, program: Command): Promise<void>
}

/** Creates a command with flags and at most one positional argument. */
export function declare({ name, argument, summary, settings, ...rest }: Declaration): Command {
  const command = new Command(name).description(summary)
  if (argument !== undefined) command.argument(argument)
  addFlags(command, settings)
  const [first] = command.options
  const variables =
    first && `Every option can also be set in the environment: ${first.long} is ${variableOf(first.attributeName())}.`
  const text = [
    '',
    'Examples:',
    ...rest.examples.map((example) => `  ${example}`),
    '',
    ...(rest.notes ?? []),
    ...(variables ? [variables] : []),
    `Exit codes: ${rest.exitCodes}.`,
  ]
  return command.addHelpText('after', text.join('\n')).action(() => {
    if (!rest.logs) for (const text of passwordWarnings(command.opts())) tell(text)
    return rest.run(command.opts(), command.args[0] ?? '', command.parent ?? command)
  })
}

/** Commands with a common first word, such as `tenure token sign`. */
export interface FamilyDeclaration {
  readonly name: string
  readonly summary: string
  readonly members: readonly Declaration[]
}

/** Creates a command whose first argument is one of its subcommands. */
export function declareFamily({ name, summary, members }: FamilyDeclaration): Command {
  const command = new Command(name).description(summary)
  for (const member of members) command.addCommand(declare(member))
  const text = [
    '',
    'Examples:',
    ...members.flatMap(({ examples }) => examples.slice(0, 1).map((example) => `  ${example}`)),
    '',
    `Exit codes: see "tenure ${name} ${members[0]?.name} --help".`,
  ]
  return command.addHelpText('after', text.join('\n'))
}
