import type { Command, Help } from 'commander'
import { missedPolicies, restartPolicies } from '../../run/settings.ts'
import { logLevels } from '../serve/settings.ts'

/** What to complete as the value of a flag. */
export type CompletionValues = { readonly words: readonly string[] } | 'files' | 'directories' | 'anything'

export interface Flag {
  readonly name: string
  readonly help: string
  /** Undefined if the flag has no value. */
  readonly values: CompletionValues | undefined
}

export interface Branch {
  readonly name: string
  readonly help: string
  readonly flags: readonly Flag[]
  /** The known values of the positional argument. Empty if any text is allowed. */
  readonly words: readonly string[]
  /** Whether the user's own program follows after `--`. */
  readonly takesProgram: boolean
}

export const shells = ['bash', 'zsh', 'fish'] as const

const urls = [
  'file:///',
  'kubernetes://',
  'multicluster://',
  'etcd://',
  'postgres://',
  'redis://',
  'http://',
  'https://',
  'memory:',
]

const valuesByPlaceholder: Readonly<Record<string, CompletionValues>> = {
  file: 'files',
  directory: 'directories',
  url: { words: urls },
  level: { words: logLevels },
  when: { words: restartPolicies },
  how: { words: missedPolicies },
}

/**
 * Returns one branch per command. It reads the parser's own command tree, so completion never offers anything that the
 * parser would reject.
 */
export function branchesOf(program: Command): Branch[] {
  const help = program.createHelp()
  return help.visibleCommands(program).map((command) => ({
    name: command.name(),
    help: help.subcommandDescription(command),
    flags: flagsOf(command, help),
    words: wordsOf(command, program),
    takesProgram: command.registeredArguments.some(({ variadic }) => variadic),
  }))
}

/** Returns the flags of a command. A command with subcommands has the flags of all of them, each once. */
function flagsOf(command: Command, help: Help): Flag[] {
  const all = [command, ...command.commands].flatMap((each) => help.visibleOptions(each))
  const flags = all.map(({ long, short, flags: text, description }): [string, Flag] => {
    const [, placeholder] = /[<[]([\w.:-]+)[>\]]/.exec(text) ?? []
    const name = long ?? short ?? ''
    return [name, { name, help: description, values: valuesOf(placeholder) }]
  })
  return [...new Map(flags).values()]
}

function valuesOf(placeholder: string | undefined): CompletionValues | undefined {
  return placeholder === undefined ? undefined : (valuesByPlaceholder[placeholder] ?? 'anything')
}

function wordsOf(command: Command, program: Command): readonly string[] {
  if (command.name() === 'completion') return shells
  return (command.name() === 'help' ? program : command).commands.map((each) => each.name())
}
