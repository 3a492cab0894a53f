import type { Branch, Flag, CompletionValues } from './tree.ts'

/** Returns the completion script for zsh, to be sourced or installed as `_tenure` in the function path. */
export function zshScript(branches: readonly Branch[]): string {
  return `#compdef tenure
# Completion for tenure in zsh. In ~/.zshrc, after compinit: source <(tenure completion zsh)
_tenure() {
  local -a commands
  commands=(
${branches.map(({ name, help }) => `    ${quote(`${name}:${help}`)}`).join('\n')}
  )
  if (( CURRENT == 2 )); then
    if [[ $words[2] == -* ]]; then
      _arguments '--help' '--version'
    else
      _describe 'command' commands
    fi
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${branches.map(commandCase).join('\n')}
  esac
}
if [[ $funcstack[1] == _tenure ]]; then
  _tenure "$@"
else
  compdef _tenure tenure
fi
`
}

function commandCase({ name, flags, words, takesProgram }: Branch): string {
  const first = words.length > 0 ? `1:name:(${words.join(' ')})` : '1:name: '
  const rest = [quote(first), ...(takesProgram ? [quote('*:: :_normal')] : [])]
  const lines = [...flags.map(argument), ...rest].map((line) => `        ${line}`)
  return `    ${name})\n      _arguments -s \\\n${lines.join(' \\\n')}\n      ;;`
}

function argument({ name, help, values }: Flag): string {
  const text = help.replaceAll(/[[\]\\:]/g, String.raw`\$&`)
  return quote(`${name}[${text}]${values === undefined ? '' : `:value:${action(values)}`}`)
}

function action(values: CompletionValues): string {
  if (values === 'anything') return ''
  if (values === 'files') return '_files'
  if (values === 'directories') return '_files -/'
  return `(${values.words.map((word) => word.replaceAll(':', String.raw`\:`)).join(' ')})`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
