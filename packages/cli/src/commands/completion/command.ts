import type { Declaration } from '../../shared/arguments/declare.ts'

/** `tenure completion`: prints a completion script for a shell. */
export const completionCommand: Declaration = {
  name: 'completion',
  argument: '<shell>',
  summary: 'Print a completion script for bash, zsh or fish.',
  settings: {},
  examples: [
    'source <(tenure completion bash)        in ~/.bashrc',
    'source <(tenure completion zsh)         in ~/.zshrc, after compinit',
    'tenure completion fish | source         in ~/.config/fish/config.fish',
  ],
  exitCodes: '0 on success, 2 for an unknown shell',
  run: async (_, name, program) => (await import('./completion.ts')).completion(name, program),
}
