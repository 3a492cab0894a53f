import type { Declaration } from '../shared/arguments/declare.ts'

/** `tenure completion`: lets a shell complete commands and options. */
export const completionCommand: Declaration = {
  name: 'completion',
  argument: '<shell>',
  summary: 'Print a script that makes bash, zsh or fish complete commands and options.',
  settings: {},
  examples: [
    'source <(tenure completion bash)        in ~/.bashrc',
    'source <(tenure completion zsh)         in ~/.zshrc, after compinit',
    'tenure completion fish | source         in ~/.config/fish/config.fish',
  ],
  exitCodes: '0, 2 for an unknown shell',
  run: async (_, name, program) => (await import('./completion.ts')).completion(name, program),
}
