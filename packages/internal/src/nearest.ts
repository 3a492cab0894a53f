// The effort grows with the square, and nobody mistypes that much.
const longestWord = 64

/** The candidate that a typing mistake was probably meant for. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > longestWord) return undefined
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.max(2, candidate.length / 3) || begins(candidate, word))
    .sort((one, other) => one.edits - other.edits)
  return best?.candidate
}

/** "mem" is far from "memory" by its letters. */
function begins(candidate: string, word: string): boolean {
  return word.length >= 3 && candidate.toLowerCase().startsWith(word.toLowerCase())
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

/** One slip of the finger, or capitals: so little that no other word is meant. */
export function isSlip(given: string, meant: string): boolean {
  const [word, right] = [given.toLowerCase(), meant.toLowerCase()]
  if (word === right) return true
  if (Math.abs(word.length - right.length) > 1) return false
  let same = 0
  while (same < word.length && word[same] === right[same]) same += 1
  const [rest, rightRest] = [word.slice(same), right.slice(same)]
  // A letter is missing: "wach".
  if (rest === rightRest.slice(1)) return true
  // One too many: "wattch", "onEvents". Not at the end, where it makes words of their own: "closed".
  if (rest.slice(1) === rightRest) return rightRest !== '' || rest === 's' || rest === right.at(-1)
  // Two are swapped: "wacth".
  if (rest.slice(2) === rightRest.slice(2) && rest[0] === rightRest[1] && rest[1] === rightRest[0]) return true
  // One is another: "onEvemt". Short words become others by that: "patch", "clone".
  return right.length >= 7 && rest.slice(1) === rightRest.slice(1)
}
