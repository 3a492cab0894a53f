import type { Command } from 'commander'

/** The candidate that a typing mistake was probably meant for. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  // The effort grows with the square, and nobody mistypes that much.
  if (word.length > 64) return undefined
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.max(2, candidate.length / 3))
    .sort((one, other) => one.edits - other.edits)
  return best?.candidate
}

/** ` Did you mean "x"?`, or nothing. */
export function didYouMean(candidate: string | undefined): string {
  return candidate === undefined ? '' : ` Did you mean "${candidate}"?`
}

/** What the parser says of `RUN` or `--STORE`, which to its own suggestions are as far from a name as anything. */
export function withOtherCase(text: string, { commands, options }: Command): string {
  return text.replace(/(?<=unknown (?:command|option) )'([^']+)'\n$/, (told, name: string) => {
    const known = [...commands.map((each) => each.name()), ...options.map(({ long }) => long)]
    const meant = known.find((each) => each === name.toLowerCase())
    return meant === undefined ? told : `${told}(Did you mean ${meant}?)\n`
  })
}

/** How many letters to add, drop or change to make one word of another. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let above = 0; above < from.length; above++) {
    const next = [above + 1]
    for (let index = 0; index < to.length; index++) {
      const change = (row[index] ?? 0) + (from[above] === to[index] ? 0 : 1)
      next.push(Math.min(change, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
