import type { Command } from 'commander'
import { Refusal } from '../refusal.ts'
import { argument } from '../settings.ts'
import { nearest } from '../suggestions.ts'
import { bashScript } from './bash.ts'
import { fishScript } from './fish.ts'
import { branchesOf, shells } from './tree.ts'
import { zshScript } from './zsh.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

/** Prints the script for a shell. */
export function completion(name: string, program: Command): void {
  const shell = argument('SHELL', name, (text) => {
    const known = shells.find((each) => each === text)
    if (known === undefined) throw new Refusal(`must be one of ${shells.join(', ')}`, nearest(text, shells))
    return known
  })
  process.stdout.write(scripts[shell](branchesOf(program)))
}
