import type { Branch, CompletionValues } from './tree.ts'

/** Returns the completion script for bash. */
export function bashScript(branches: readonly Branch[]): string {
  return `# Completion for tenure in bash. In ~/.bashrc: source <(tenure completion bash)
_tenure() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command= flags= words= index
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "\${COMP_WORDS[index]}" in
      --)
        compopt -o default
        return
        ;;
      -*) ;;
      *) [[ -n $command ]] || command="\${COMP_WORDS[index]}" ;;
    esac
  done
  case "$command $previous" in
${branches.flatMap(valueCases).join('\n')}
  esac
  case "$command" in
${branches.map(commandCase).join('\n')}
    '')
      flags='--help --version'
      words='${branches.map(({ name }) => name).join(' ')}'
      ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}
complete -F _tenure tenure
`
}

function valueCases({ name, flags }: Branch): string[] {
  return flags.flatMap(({ name: flag, values }) => {
    if (values === undefined) return []
    return [`    '${name} ${flag}')`, ...reply(values).map((line) => `      ${line}`), '      return', '      ;;']
  })
}

function reply(values: CompletionValues): string[] {
  if (values === 'anything') return []
  if (values === 'files') return names('-f')
  if (values === 'directories') return names('-d')
  // The user will continue the URL, so bash must not add a space after it.
  return ['compopt -o nospace', `COMPREPLY=($(compgen -W '${values.words.join(' ')}' -- "$current"))`]
}

/** Split only at newlines, because file names may contain spaces. */
function names(kind: '-f' | '-d'): string[] {
  return ['compopt -o filenames', "local IFS=$'\\n'", `COMPREPLY=($(compgen ${kind} -- "$current"))`]
}

function commandCase({ name, flags, words }: Branch): string {
  return [
    `    ${name})`,
    `      flags='${flags.map((flag) => flag.name).join(' ')}'`,
    `      words='${words.join(' ')}'`,
    '      ;;',
  ].join('\n')
}
