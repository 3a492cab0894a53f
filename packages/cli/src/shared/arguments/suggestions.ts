import type { Command } from 'commander'

/** Returns ` Did you mean "x"?`, or the empty string. */
export function didYouMean(candidate: string | undefined): string {
  return candidate === undefined ? '' : ` Did you mean "${candidate}"?`
}

/** Adds a suggestion for input in the wrong case, such as `RUN` or `--STORE`, for which commander has none. */
export function suggestOtherCase(text: string, { commands, options }: Command): string {
  return text.replace(/(?<=unknown (?:command|option) )'([^']+)'\n$/, (quoted, name: string) => {
    const known = [...commands.map((each) => each.name()), ...options.map(({ long }) => long)]
    const meant = known.find((each) => each === name.toLowerCase())
    return meant === undefined ? quoted : `${quoted}(Did you mean ${meant}?)\n`
  })
}
