import { Command } from 'commander'
import { tell } from '../output.ts'
import { addFlags, shownPasswords, variableOf, type Sources, type Table } from './settings.ts'

/** A command as its help shows it, and what it does. */
export interface Declaration {
  readonly name: string
  /** What is given without a flag, such as `<election>`. */
  readonly argument?: string
  readonly summary: string
  readonly settings: Table
  /** For the user to copy. */
  readonly examples: readonly string[]
  readonly notes?: readonly string[]
  /** For scripts to compare. */
  readonly exitCodes: string
  /** Standard error is a log of its own, in which the command itself warns. */
  readonly logs?: boolean
  /** Loads what the command needs only now. `argument` is what was given without a flag. */
  run(flags: Sources['flags'], argument: string, program: Command): Promise<void>
}

/** Makes a command that is called with flags and at most one argument. */
export function declare({ name, argument, summary, settings, ...rest }: Declaration): Command {
  const command = new Command(name).description(summary)
  if (argument !== undefined) command.argument(argument)
  addFlags(command, settings)
  const [first] = command.options
  const variables =
    first && `Every option can be set in the environment too: ${first.long} is ${variableOf(first.attributeName())}.`
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
    if (!rest.logs) for (const text of shownPasswords(command.opts())) tell(text)
    return rest.run(command.opts(), command.args[0] ?? '', command.parent ?? command)
  })
}

/** Commands with a first word in common, such as `tenure token sign`. */
export interface FamilyDeclaration {
  readonly name: string
  readonly summary: string
  readonly members: readonly Declaration[]
}

/** Makes a command whose first argument is one of its members. */
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
