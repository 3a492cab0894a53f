import type { Branch, Flag, CompletionValues } from './tree.ts'

/** Returns the completion script for fish. */
export function fishScript(branches: readonly Branch[]): string {
  const first = 'complete -c tenure -n __fish_use_subcommand'
  return `# Completion for tenure in fish. In ~/.config/fish/config.fish: tenure completion fish | source
complete -c tenure -f
${first} -l help
${first} -l version
${branches.map(({ name, help }) => `${first} -a ${name} -d ${quote(help)}`).join('\n')}
${branches.flatMap(linesOf).join('\n')}
`
}

function linesOf({ name, flags, words, takesProgram }: Branch): string[] {
  const here = `complete -c tenure -n ${quote(`__fish_seen_subcommand_from ${name}`)}`
  return [
    ...flags.map((flag) => `${here} ${argument(flag)}`),
    ...(words.length > 0 ? [`${here} -a ${quote(words.join(' '))}`] : []),
    ...(takesProgram ? [`${here} -F`] : []),
  ]
}

function argument({ name, help, values }: Flag): string {
  return `-l ${name.replace(/^--/, '')} -d ${quote(help)}${values === undefined ? '' : ` ${action(values)}`}`
}

function action(values: CompletionValues): string {
  if (values === 'anything') return '-x'
  if (values === 'files') return '-r -F'
  if (values === 'directories') return "-x -a '(__fish_complete_directories)'"
  return `-x -a ${quote(values.words.join(' '))}`
}

function quote(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
}
