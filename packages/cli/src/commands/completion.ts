import { Command } from 'commander'
import { describe } from '../describe.ts'

/** `tenure completion`: lets a shell complete commands and options. */
export function completionCommand(): Command {
  const command = new Command('completion')
    .argument('<shell>')
    .description('Print what lets bash, zsh or fish complete commands and options.')
  return describe(command, {
    examples: [
      'source <(tenure completion bash)        in ~/.bashrc',
      'source <(tenure completion zsh)         in ~/.zshrc, after compinit',
      'tenure completion fish | source         in ~/.config/fish/config.fish',
    ],
    exitCodes: '0, 2 for a shell that is not known',
  }).action(async (shell: string) => {
    const { completion } = await import('../completion/completion.ts')
    completion(shell, command.parent ?? command)
  })
}
