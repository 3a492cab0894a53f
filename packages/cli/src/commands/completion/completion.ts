import type { Command } from 'commander'
import { parseArgument } from '../../shared/arguments/settings.ts'
import { oneOf } from '../../shared/arguments/values.ts'
import { writeOut } from '../../shared/output.ts'
import { bashScript } from './bash.ts'
import { fishScript } from './fish.ts'
import { branchesOf, shells } from './tree.ts'
import { zshScript } from './zsh.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

/** Prints the completion script for a shell. */
export function completion(name: string, program: Command): void {
  const shell = parseArgument('SHELL', name, oneOf(shells))
  writeOut(scripts[shell](branchesOf(program)))
}
